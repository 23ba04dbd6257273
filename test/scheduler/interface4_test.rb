# frozen_string_literal: true

require "test_helper"
require "support/scheduler_case"
require "support/pool_hooks"
require "tempfile"

# The hooks as Ruby 4.1 calls them (version 4 of the interface): the offset comes before the length, and the
# length is a maximum. Any Ruby can call them so when they are built for it.
class Interface4Test < Minitest::Test
  include SchedulerCase

  # What the block of code puts into `seen`, in a fiber. Ruby's own reads and writes must stay outside: they
  # would call the hooks in the order of this Ruby.
  def run_hooks(code, *arguments)
    status, out, err = run_ruby(<<~RUBY)
      $VERBOSE = nil
      require #{PoolHooksBuild.library(4).inspect}
      reader, writer = IO.pipe
      file = File.open(#{arguments.first.inspect}, "r+b") if #{arguments.any?}
      seen = []
      Thread.new do
        Fiber.set_scheduler(scheduler = PoolHooks::Scheduler.new)
        Fiber.schedule do
          from = IO::Buffer.for("0123456789")
          into = IO::Buffer.new(8)
          #{code}
        rescue => error
          seen << error
        end
      end.join
      p seen
    RUBY
    assert_predicate status, :success?, err
    out.chomp
  end

  def test_reading_and_writing
    seen = run_hooks(<<~RUBY)
      seen << scheduler.io_write(writer, from, 6, 3)
      seen << scheduler.io_read(reader, into, 2, 5)
      seen << into.get_string.unpack("x2a3C")
    RUBY
    assert_equal '[3, 3, ["678", 0]]', seen
  end

  def test_the_length_is_a_maximum
    seen = run_hooks(<<~RUBY)
      seen << scheduler.io_write(writer, from, 0, 10)
      seen << scheduler.io_read(reader, into, 0, 2)
      seen << scheduler.io_read(reader, into, 0, 8)
      seen << scheduler.io_read(reader, into, 0, 0)
      seen << scheduler.io_read(reader, into, 0, 8)
      seen << scheduler.io_write(writer, from, 0, 0)
      seen << scheduler.io_write(writer, from, 8, 10)
      scheduler.io_write(writer, from, 11, 1)
    RUBY
    again = -Errno::EAGAIN::Errno
    assert_equal "[10, 2, 8, 0, #{again}, 0, 2, #<ArgumentError: the offset is behind the end of the buffer>]", seen
  end

  def test_positions
    Tempfile.create("abaca") do |file|
      file.write("abcdef")
      file.flush
      seen = run_hooks(<<~RUBY, file.path)
        seen << scheduler.io_pwrite(file, from, 1, 7, 2)
        seen << scheduler.io_pread(file, into, 0, 4, 3)
        seen << into.get_string(4, 3)
      RUBY
      assert_equal '[2, 3, "a78"]', seen
      assert_equal "a78def", File.read(file.path)
    end
  end
end
