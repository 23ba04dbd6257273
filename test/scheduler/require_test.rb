# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"

# Fibers that wait for a file that another one loads. Ruby loads the converter of an encoding when it is first needed,
# and takes no notice of what is raised meanwhile: what a hook raised there is lost, and its frame may be left behind,
# of which Ruby dies.
class RequireTest < Minitest::Test
  include SchedulerCase

  # The converter of GB18030, which no gem that is loaded before needs; its loading waits until it is let go.
  CONVERTER = <<~RUBY
    $gate.pop
    require File.join(RbConfig::CONFIG["rubyarchdir"], "enc/trans/gb18030.so")
  RUBY

  # `first` loads it and `second` waits for that; what both see comes out.
  PRELUDE = <<~'RUBY'
    require "abaca/scheduler"
    $gate = Queue.new
    $events = []
    def encode = "\u00e9".encode("GB18030").bytesize
    def note(event) = $events << event
    def first(&after) = Fiber.schedule { note([:first, encode]) && after&.call }

    def second(&after)
      $second = Fiber.schedule do
        note([:second, encode])
        after&.call
        sleep 0
        note(:over)
      rescue KeyError, Timeout::Error
        note(:raised)
      end
    end

    def scheduler = Fiber.scheduler

    def run
      Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new)
        yield
      end.join
      puts $events.inspect
    end
  RUBY

  # What the program prints.
  def events(program)
    Dir.mktmpdir do |path|
      FileUtils.mkdir_p("#{path}/enc/trans")
      File.write("#{path}/enc/trans/gb18030.rb", CONVERTER)
      status, out, err = run_ruby(PRELUDE + program, "-I", path, "-r", "timeout")
      assert status.success?, err
      return out.chomp
    end
  end

  SEEN = "[[:first, 2], [:second, 2], :raised]"

  def test_what_they_wait_for
    out = events(<<~RUBY)
      run do
        first && second
        waits = scheduler.fibers.find { |entry| entry[:fiber].equal?($second) }
        note(waits.values_at(:waiting_for, :object, :owner))
        $gate << 1
      end
    RUBY
    assert_equal "[[:require, nil, nil], [:first, 2], [:second, 2], :over]", out
  end

  # An exception comes at the next wait.
  def test_what_is_raised_in_a_waiter
    assert_equal SEEN, events(<<~RUBY)
      run do
        first && second
        $second.raise(KeyError)
        $gate << 1
      end
    RUBY
  end

  # It is loaded, but the fiber that waited for it has not run yet.
  def test_what_is_raised_in_a_former_waiter
    assert_equal SEEN, events(<<~RUBY)
      run do
        first { $second.raise(KeyError) }
        second
        $gate << 1
      end
    RUBY
  end

  def test_two_exceptions
    assert_equal SEEN, events(<<~RUBY)
      run do
        first { $second.raise(KeyError, "three") }
        second { sleep 0 rescue nil }
        $second.raise(KeyError, "one")
        $gate << 1
      end
    RUBY
  end

  # The loop tries again until its fiber waits for something else.
  def test_a_time_limit
    assert_equal "[[:first, 2], [:second, 2], :late]", events(<<~RUBY)
      run do
        first
        Fiber.schedule do
          Timeout.timeout(0.01) do
            note([:second, encode])
            sleep
          end
        rescue Timeout::Error
          note(:late)
        end
        sleep 0.05
        $gate << 1
      end
    RUBY
  end

  def test_a_killed_fiber
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    assert_equal "[[:first, 2], [:second, 2], :ensured]", events(<<~RUBY)
      run do
        first
        $second = Fiber.schedule do
          note([:second, encode])
          sleep 0
          note(:over)
        ensure
          note(:ensured)
        end
        $second.kill
        $gate << 1
      end
    RUBY
  end

  # What concerns the thread reaches its loop all the same.
  def test_what_is_raised_in_the_thread
    assert_equal "[:told, [:first, 2], [:second, 2], :over]", events(<<~RUBY)
      run do
        first && second
        thread = Thread.current
        Thread.new { sleep 0.01 while thread.status == "run"; thread.raise(IndexError) }
        begin
          scheduler.run
        rescue IndexError
          note(:told)
        end
        $gate << 1
      end
    RUBY
  end

  # The next job of a pool's fiber has got nothing to do with what was raised in the last one.
  def test_a_fiber_that_is_used_again
    assert_equal "[[:first, 2], 2, :next]", events(<<~RUBY)
      require "abaca/fiber_pool"
      run do
        pool = Abaca::FiberPool.new(max: 1)
        first { $job.raise(KeyError) }
        pool.run { ($job = Fiber.current) && note(encode) }
        $gate << 1
        scheduler.run
        pool.run { sleep(0) && note(:next) }.value
      end
    RUBY
  end
end
