# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "socket"

class TimeoutTest < Minitest::Test
  include SchedulerCase

  class Own < StandardError; end

  def test_it_fires_in_a_wait
    in_fiber do
      took = seconds do
        error = assert_raises(Timeout::Error) { Timeout.timeout(0.02) { sleep 60 } }
        assert_equal "execution expired", error.message
      end
      assert_operator took, :>=, 0.019
      assert_operator took, :<, 19
    end
  end

  def test_it_never_fires_after_its_block
    in_fiber do
      assert_equal :value, Timeout.timeout(0.01) { :value }
      nothing_for(0.03)
      50.times { Timeout.timeout(0.002) { sleep 0.0019 } rescue Timeout::Error } # rubocop:disable Style/RescueModifier
      nothing_for(0.02)
    end
  end

  def test_it_hits_no_other_fiber
    errors = []
    with_scheduler do
      Fiber.schedule do
        Timeout.timeout(0.01) { sleep 1 }
      rescue Timeout::Error
        errors << :own
      end
      Fiber.schedule do
        sleep 0.01 until errors.include?(:own)
        errors << :none
      end
    end
    assert_equal %i[own none], errors
  end

  def test_inner_and_outer
    in_fiber do
      error = assert_raises(Own) { Timeout.timeout(0.01, Own) { Timeout.timeout(30) { sleep 60 } } }
      assert_equal "execution expired", error.message
      Timeout.timeout(30, Own) { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { sleep 5 } } }
    end
  end

  def test_two_at_the_same_time
    in_fiber do
      seen = []
      begin
        Timeout.timeout(0.02, Own) do
          Timeout.timeout(0.02, ArgumentError) { sleep 5 }
        rescue ArgumentError
          seen << :inner
          sleep 5
        end
      rescue Own
        seen << :outer
      end
      assert_includes [%i[outer], %i[inner outer]], seen
    end
  end

  def test_class_message_and_instance
    in_fiber do |scheduler|
      error = assert_raises(Own) { scheduler.timeout_after(0.001, Own, "late") { sleep 1 } }
      assert_equal "late", error.message
      error = assert_raises(Own) { scheduler.timeout_after(0.001, Own.new("mine"), nil) { sleep 1 } }
      assert_equal "mine", error.message
      error = assert_raises(Timeout::Error) { scheduler.timeout_after(0.001) { sleep 1 } }
      assert_equal "execution expired", error.message
      assert_equal 0.5, scheduler.timeout_after(0.5, &:itself)
      assert_raises(TypeError) { scheduler.timeout_after(0.001, 5, "x") { sleep 1 } }
    end
  end

  def test_no_time_at_all
    in_fiber do |scheduler|
      assert_equal :value, Timeout.timeout(0) { sleep(0.001) && :value } # Ruby takes it for no limit
      assert_equal 0, scheduler.timeout_after(0, &:itself)
      assert_raises(Timeout::Error) { scheduler.timeout_after(0) { sleep 5 } }
      assert_raises(Timeout::Error) { scheduler.timeout_after(0r) { Queue.new.pop } }
    end
  end

  # Nothing is made before the time is over.
  def test_the_exception_is_made_when_it_is_due
    made = 0
    klass = Class.new(StandardError) { define_method(:initialize) { |*rest| (made += 1) && super(*rest) } }
    in_fiber do |scheduler|
      3.times { scheduler.timeout_after(60, klass) { sleep 0 } }
      assert_equal 0, made
      error = assert_raises(klass) { scheduler.timeout_after(0.001, klass) { sleep 5 } }
      assert_equal [1, "execution expired"], [made, error.message]
    end
  end

  def test_a_class_whose_exceptions_cannot_be_made
    broken = Class.new(StandardError) { def initialize(*) = raise(KeyError, "no") } # rubocop:disable Lint/MissingSuper
    in_fiber do |scheduler|
      assert_raises(KeyError) { scheduler.timeout_after(0.001, broken) { sleep 5 } }
      assert_raises(TypeError) { scheduler.timeout_after(0.001, String) { sleep 5 } }
    end
  end

  def test_an_instance_keeps_its_own_message
    in_fiber do |scheduler|
      mine = Own.new("mine")
      assert_same(mine, assert_raises(Own) { scheduler.timeout_after(0.001, mine) { sleep 5 } })
      assert_equal "mine", mine.message
      error = assert_raises(Own) { scheduler.timeout_after(0.001, mine, "other") { sleep 5 } }
      assert_equal "other", error.message
      error = assert_raises(Timeout::Error) { scheduler.timeout_after(0.001, nil, "late") { sleep 5 } }
      assert_equal "late", error.message
    end
  end

  # Without lib/timeout the scheduler loads it.
  def test_before_the_library_is_loaded
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      abort "loaded" if defined?(Timeout)
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule do
        Fiber.scheduler.timeout_after(0.001) { sleep }
      rescue Timeout::Error => error
        puts error.message
      end
    RUBY
    assert_predicate status, :success?, err
    assert_equal "execution expired\n", out
  end

  def test_left_by_break_throw_and_exception
    in_fiber do |scheduler|
      scheduler.timeout_after(0.01) { break }
      catch(:out) { scheduler.timeout_after(0.01) { throw :out } }
      assert_raises(KeyError) { scheduler.timeout_after(0.01) { raise KeyError } }
      [1].each { |_| scheduler.timeout_after(0.01) { next } }
      nothing_for(0.03)
    end
  end

  # All of it goes on until every time-out has fired.
  def test_every_kind_of_wait
    reader, writer = IO.pipe
    mutex = Mutex.new
    fired = Queue.new
    child = thread = nil
    waits = {
      io: -> { reader.read(1) },
      queue: -> { Queue.new.pop },
      process: -> { Process.wait(child = spawn("sleep 60")) },
      block: -> { Fiber.scheduler.block(:nothing, nil) },
      select: -> { Fiber.scheduler.io_select([reader]) },
      mutex: -> { mutex.synchronize { nil } },
      fiber: -> { Fiber.new { sleep 60 }.resume },
      thread: -> { (thread = Thread.new { sleep 60 }).join }
    }
    with_scheduler do
      Fiber.schedule { mutex.synchronize { waits.size.times { fired.pop } } }
      waits.each do |name, wait|
        Fiber.schedule do
          assert_raises(Timeout::Error, name.to_s) { Timeout.timeout(0.02) { wait.call } }
        ensure
          fired << name
        end
      end
    end
  ensure
    [reader, writer].each(&:close)
    thread&.kill&.join
    child && Process.kill(:KILL, child) && Process.wait(child)
  end

  # Those that sleep shortly have their time-outs taken back. One of them may fire as well, where the machine
  # stands still for as long.
  def test_many
    fired = []
    with_scheduler do
      1000.times do |i|
        Fiber.schedule do
          start = SchedulerCase.clock
          limit = 0.3 + (i % 10 * 0.001)
          Timeout.timeout(limit) { sleep(i.even? ? 60 : 0.001) }
        rescue Timeout::Error
          fired << i
          assert_operator SchedulerCase.clock - start, :>=, limit
        end
      end
    end
    assert_equal 500, fired.count(&:even?)
  end

  def test_bad_arguments
    in_fiber do |scheduler|
      assert_raises(ArgumentError) { scheduler.timeout_after(-1) { nil } }
      assert_raises(TypeError) { scheduler.timeout_after("1") { nil } }
      assert_raises(LocalJumpError) { scheduler.timeout_after(1) }
      assert_nil scheduler.timeout_after(nil, &:itself)
    end
  end
end
