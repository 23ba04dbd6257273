# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/plain_scheduler"
require "support/scheduler_case"
require "timeout"

# Abaca.offload: a block on a thread, for which a fiber waits, and in place where there is none.
class AbacaOffloadTest < Minitest::Test
  # Runs the block on a fiber of a new thread with the scheduler; returns what it returns.
  def on_fiber(scheduler_class = Abaca::Scheduler)
    Thread.new do
      Thread.current.report_on_exception = false
      result = nil
      Fiber.set_scheduler(scheduler_class.new)
      Fiber.schedule do
        result = [yield]
      rescue Exception => e # rubocop:disable Lint/RescueException -- it is the test's
        result = e
      end
      Fiber.scheduler.run
      Fiber.set_scheduler(nil)
      result.is_a?(Array) ? result.first : raise(result)
    end.value
  end

  SCHEDULERS = [Abaca::Scheduler, PlainScheduler].freeze

  def test_without_a_fiber_it_is_run_in_place
    assert_same Thread.current, Abaca.offload { Thread.current }
    assert_equal 1, catch(:out) { Abaca.offload { throw :out, 1 } }
    assert_raises(IOError) { Abaca.offload { raise IOError } }
    on_fiber { assert_same Thread.current, Fiber.new(blocking: true) { Abaca.offload { Thread.current } }.resume }
    assert_raises(ArgumentError) { Abaca.offload }
  end

  def test_on_a_fiber_others_go_on
    SCHEDULERS.each do |scheduler|
      on_fiber(scheduler) do
        home = Thread.current
        gate = Queue.new
        # It would wait for ever if the fiber kept the thread.
        Fiber.schedule { sleep(0.01) && gate.push(true) }
        found = Abaca.offload { gate.pop && [Thread.current, Thread.current.name, Fiber.scheduler] }
        refute_same home, found.shift
        assert_equal ["abaca offload", nil], found
      end
    end
  end

  def test_computing_keeps_no_other_fiber
    turns = 0
    on_fiber do
      done = false
      Fiber.schedule { (turns += 1) && sleep(0.001) until done }
      stop = false
      Fiber.schedule do
        sleep 0.001 until turns > 5
        stop = true
      end
      Abaca.offload { nil until stop }
      done = true
    end
    assert_operator turns, :>, 5
  end

  def test_results_and_exceptions
    SCHEDULERS.each do |scheduler|
      assert_equal :result, on_fiber(scheduler) { Abaca.offload { :result } }
      assert_nil(on_fiber(scheduler) { Abaca.offload { nil } })
      error = assert_raises(KeyError) { on_fiber(scheduler) { Abaca.offload { raise KeyError, "mine" } } }
      assert_equal "mine", error.message
      assert_includes error.backtrace.first, __FILE__
      assert_raises(SystemExit) { on_fiber(scheduler) { Abaca.offload { exit 3 } } }
      assert_raises(Abaca::Error) { on_fiber(scheduler) { Abaca.offload { Thread.current.kill } } }
      assert_raises(UncaughtThrowError) { on_fiber(scheduler) { catch(:x) { Abaca.offload { throw :x } } } }
    end
  end

  def test_inside_it_is_run_in_place
    on_fiber do
      assert_same(*Abaca.offload { [Thread.current, Abaca.offload { Thread.current }] })
    end
  end

  # With a scheduler there too: all places may be taken by blocks that would wait for another one.
  def test_inside_a_scheduler_of_its_own_it_is_run_in_place
    on_fiber { assert_same(*Abaca.offload { on_fiber_here { [Thread.current, Abaca.offload { Thread.current }] } }) }
  end

  def on_fiber_here
    result = nil
    Fiber.set_scheduler(Abaca::Scheduler.new)
    Fiber.schedule { result = yield }
    Fiber.scheduler.run
    result
  end

  # What ends the wait ends the block where it waits, and not before that is over. The time may be over before
  # the block has begun; then it never does.
  def test_an_exception_in_the_fiber
    steps = []
    on_fiber do
      until steps.include?(:begins)
        assert_raises(Timeout::Error) { Timeout.timeout(0.05) { Abaca.offload { wait_for_ever(steps) } } }
        steps << :fiber
      end
      nothing_for(0.01)
    end
    assert_equal %i[begins ends fiber], steps.drop_while { |step| step == :fiber }
  end

  def wait_for_ever(steps)
    steps << :begins
    sleep
  ensure
    steps << :ends
  end

  def test_its_own_timeouts_work
    on_fiber do
      assert_equal(:late, Abaca.offload do
        Timeout.timeout(0.01) { loop { nil } }
      rescue Timeout::Error
        :late
      end)
    end
  end

  # One that computes goes on to its end.
  def test_a_computation_is_not_torn
    told = false
    steps = 0
    on_fiber do
      waits = Fiber.current
      Fiber.schedule do
        sleep 0.001 until steps.positive?
        told = true
        waits.raise(IOError, "enough")
      end
      assert_raises(IOError) { Abaca.offload { (steps += 1) until told && steps > 1000 } }
      assert_operator steps, :>, 1000
    end
  end

  def test_no_more_than_there_are_places
    busy = most = 0
    lock = Mutex.new
    gate = Queue.new
    on_fiber do
      fibers = Array.new(40) do
        Fiber.schedule do
          Abaca.offload do
            lock.synchronize { most = [most, busy += 1].max }
            gate.pop
            lock.synchronize { busy -= 1 }
          end
        end
      end
      assert(eventually { gate.num_waiting == 16 })
      nothing_for(0.01) { gate.num_waiting == 16 }
      40.times { gate << true }
      assert(eventually { fibers.none?(&:alive?) })
    end
    assert_equal [0, 16], [busy, most]
  end

  def test_a_forked_child_has_all_places
    reader, writer = IO.pipe
    on_fiber do
      gate = Queue.new
      16.times { Fiber.schedule { Abaca.offload { gate.pop } } }
      assert(eventually { gate.num_waiting == 16 }) # threads that begin may hold a sanitizer's locks
      pid = fork do
        waiting = Thread.new do
          Fiber.set_scheduler(Abaca::Scheduler.new)
          Fiber.schedule { writer.write(Abaca.offload { "child" }) }
        end
        exit!(waiting.join(20) ? true : false)
      end
      Process.wait(pid)
      16.times { gate << true }
    end
    writer.close
    assert_equal "child", reader.read
  ensure
    reader.close
  end

  def test_two_threads_that_begin_at_the_same_time
    pid = fork do
      Thread.report_on_exception = false
      Abaca.const_get(:Offloaded).instance_variable_set(:@places, nil) # as before the first offload
      other = nil
      # Some Rubies trace the call of `new`, others only that of `initialize`.
      trace = TracePoint.new(:c_call, :call) do |point|
        next unless [point.self, point.self.class].include?(Thread::SizedQueue) && !other

        other = Thread.new { on_fiber { Abaca.offload { 1 } } }
        over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.2
        Thread.pass until Process.clock_gettime(Process::CLOCK_MONOTONIC) > over
      end
      trace.enable
      results = [on_fiber { Abaca.offload { 2 } }, other.value]
      exit!(results == [2, 1])
    rescue NoMethodError
      exit!(1)
    end
    assert_predicate Process.wait2(pid).last, :success?
  end

  # Raised in the thread of a block that has just ended, by code that has kept a reference to it.
  def test_a_thread_that_ends_by_a_stray_exception
    trace = TracePoint.new(:return) do |point|
      next unless point.method_id == :call && Thread.current.name == "abaca offload"

      Thread.current.report_on_exception = false
      raise IOError, "stray"
    end
    trace.enable
    assert_equal("stray", assert_raises(IOError) { on_fiber { Abaca.offload { 1 } } }.message)
  ensure
    trace.disable
  end
end
