# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "socket"
require "tempfile"

# The hooks that move bytes between an IO and an IO::Buffer. Ruby asks for one attempt; code that calls
# IO::Buffer#read and its like asks for a least number of bytes.
class BufferTest < Minitest::Test
  include SchedulerCase

  AGAIN = -Errno::EAGAIN::Errno
  DATA = Random.new(3).bytes(300_000).freeze

  def setup
    super
    skip "Ruby 4.1 asks for one attempt only, and has another order" if RUBY_VERSION >= "4.1"
    @reader, @writer = IO.pipe(binmode: true)
  end

  def teardown
    [@reader, @writer].compact.each { |io| io.close unless io.closed? }
    super
  end

  def buffer(size = 16) = IO::Buffer.new(size)

  # Of a copy: Ruby 3.1 locks the String for as long as the buffer lives.
  def buffer_of(text) = IO::Buffer.for(text.dup)

  def test_reading
    in_fiber do |scheduler|
      into = buffer
      assert_equal AGAIN, scheduler.io_read(@reader, into, 0)
      Fiber.schedule { 4.times { sleep(0.002) && @writer.syswrite("ab") } }
      assert_equal 6, scheduler.io_read(@reader, into, 6)
      assert_equal "ababab", into.get_string(0, 6)
      assert_raises(ArgumentError) { scheduler.io_read(@reader, into, 17) }
      assert_raises(ArgumentError) { scheduler.io_read(@reader) }
    end
  end

  # No more will come than is there.
  def test_a_minimum_that_the_end_comes_before
    in_fiber do |scheduler|
      Fiber.schedule { %w[ab cd].each { |part| sleep(0.002) && @writer.syswrite(part) } && @writer.close }
      into = buffer
      assert_equal 4, scheduler.io_read(@reader, into, 10)
      assert_equal "abcd", into.get_string(0, 4)
      assert_equal 0, scheduler.io_read(@reader, into, 10)
      assert_equal 0, scheduler.io_read(@reader, into, 0)
    end
  end

  # Whoever gets 0 for what is not empty tries again for ever.
  def test_one_attempt_to_write
    in_fiber do |scheduler|
      from = buffer_of(DATA)
      first = scheduler.io_write(@writer, from, 0)
      assert_includes 1...DATA.bytesize, first
      results = [first]
      results << scheduler.io_write(@writer, from, 0) until results.last.negative?
      assert_equal AGAIN, results.last
      refute_includes results, 0
      assert_equal DATA.byteslice(0, first), @reader.readpartial(first)
    end
  end

  def test_a_minimum_is_written_across_waits
    got = nil
    in_fiber do |scheduler|
      Fiber.schedule { got = @reader.read }
      turns = 0
      Fiber.schedule { (turns += 1) && sleep(0) until @writer.closed? }
      assert_equal DATA.bytesize, scheduler.io_write(@writer, buffer_of(DATA), DATA.bytesize)
      assert_operator turns, :>, 1
    ensure
      @writer.close
    end
    assert_equal DATA, got
  end

  def test_errors_are_numbers
    near, far = UNIXSocket.pair
    in_fiber do |scheduler|
      from = buffer_of("text")
      assert_equal(-Errno::EBADF::Errno, scheduler.io_write(@reader, from, 0))
      assert_equal(-Errno::EBADF::Errno, scheduler.io_read(@writer, buffer, 1))
      [@reader, far].each(&:close)
      [@writer, near].each do |io|
        [0, 4].each { |least| assert_equal(-Errno::EPIPE::Errno, scheduler.io_write(io, from, least)) }
      end
      File.open("/") { |folder| assert_equal(-Errno::EISDIR::Errno, scheduler.io_read(folder, buffer, 0)) }
    end
  ensure
    near.close
  end

  def test_an_offset
    skip "the hooks have it from Ruby 3.2 on" if RUBY_VERSION < "3.2"
    in_fiber do |scheduler|
      assert_equal 4, scheduler.io_write(@writer, buffer_of("0123456789"), 0, 6)
      into = buffer
      assert_equal 4, scheduler.io_read(@reader, into, 4, 10)
      assert_equal "\0\x006789", into.get_string(8, 6)
      assert_raises(ArgumentError) { scheduler.io_read(@reader, into, 0, 17) }
      assert_raises(ArgumentError) { scheduler.io_write(@writer, into, 7, 10) }
      assert_equal 0, scheduler.io_read(@reader, into, 0, 16)
    end
  end

  # Ruby's own methods that never wait call the same hooks.
  def test_no_time_limit_makes_a_method_wait_that_never_does
    skip "IO#timeout is of Ruby 3.2" unless IO.method_defined?(:timeout=)
    in_fiber do
      @reader.timeout = @writer.timeout = 60
      assert_equal :wait_readable, @reader.read_nonblock(1, exception: false)
      nil while (written = @writer.write_nonblock("x" * 4096, exception: false)).is_a?(Integer)
      assert_equal :wait_writable, written
    end
  end

  # Ruby passes IO#timeout to io_wait, but not to these.
  def test_a_time_limit_of_the_io
    skip "IO#timeout is of Ruby 3.2" unless IO.method_defined?(:timeout=)
    in_fiber do |scheduler|
      @reader.timeout = @writer.timeout = 0.01
      [0, 3].each { |least| assert_raises(IO::TimeoutError) { scheduler.io_read(@reader, buffer, least) } }
      from = buffer_of(DATA)
      assert_raises(IO::TimeoutError) { scheduler.io_write(@writer, from, DATA.bytesize) }
      assert_raises(IO::TimeoutError) { scheduler.io_write(@writer, from, 0) }
      @writer.timeout = 60
      Fiber.schedule { sleep(0.001) && @reader.readpartial(65_536) }
      assert_operator scheduler.io_write(@writer, from, 0), :>, 0
    end
  end

  def test_positions
    Tempfile.create("abaca") do |file|
      in_fiber do |scheduler|
        rest = RUBY_VERSION < "3.2" ? [4, 2] : [2, 4, 0]
        assert_equal 10, scheduler.io_pwrite(file, buffer_of("0123456789"), *rest)
        assert_equal "\0\x000123456789", File.binread(file.path)
        target = buffer(4)
        assert_equal 4, scheduler.io_pread(file, target, *rest)
        assert_equal "0123", target.get_string
        next if RUBY_VERSION < "3.2"

        assert_equal 3, scheduler.io_pread(file, target, 5, 0, 1)
        assert_equal "0345", target.get_string
        assert_equal 1, scheduler.io_pwrite(file, target, 0, 1, 3)
        assert_equal "5\x000123456789", File.binread(file.path)
      end
    end
  end

  # The way to them from Ruby code.
  def test_the_methods_of_a_buffer
    in_fiber do
      Fiber.schedule { 3.times { sleep(0.001) && @writer.syswrite("ab") } }
      into = buffer
      assert_equal 6, into.read(@reader, 6)
      assert_equal "ababab", into.get_string(0, 6)
      assert_equal 16, into.write(@writer, 16)
      assert_equal "ababab#{"\0" * 10}", @reader.readpartial(20)
    end
  end

  # Before Ruby 4.0 no hook is asked to flush, only to wait.
  def test_what_ruby_has_buffered
    got = nil
    with_scheduler do
      @writer.sync = false
      Fiber.schedule { got = @reader.read }
      Fiber.schedule do
        (0...DATA.bytesize).step(1000) { |place| @writer.write(DATA.byteslice(place, 1000)) }
        @writer.flush
        @writer.write("end")
        @writer.close
      end
    end
    assert_equal DATA + "end", got
  end

  # Ruby 3.1 to 4.0 call IO::Buffer experimental at its first use, which may be inside a hook.
  def test_no_warning
    status, out, err = run_ruby(<<~RUBY, "-W:experimental")
      require "abaca/scheduler"
      reader, writer = IO.pipe
      Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new)
        Fiber.schedule { puts reader.read(1) }
        Fiber.schedule { writer.syswrite("x") }
      end.join
      p Warning[:experimental]
    RUBY
    assert_predicate status, :success?, err
    assert_equal ["x\ntrue\n", ""], [out, err]
  end
end
