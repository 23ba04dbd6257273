# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "monitor"
require "support/scheduler_case"

# Wake-ups that come before their fiber has parked.
class LatchTest < Minitest::Test
  include SchedulerCase

  # Calls a block once, before a fiber parks in #block or #kernel_sleep.
  class Late < SchedulerCase::Recorder
    attr_writer :before

    def block(*arguments)
      hesitate
      super
    end

    def kernel_sleep(*arguments)
      hesitate
      super
    end

    # The hooks themselves, for what the block has to wait for.
    def block_at_once(...) = Abaca::Scheduler.instance_method(:block).bind_call(self, ...)
    def sleep_at_once(...) = Abaca::Scheduler.instance_method(:kernel_sleep).bind_call(self, ...)

    private

    def hesitate
      before = @before
      @before = nil
      before&.call
    end
  end

  # What the fiber does in its hook until `done` says that it has been woken.
  WAYS = {
    "a thread gets its turn" => ->(_scheduler, done) { Thread.pass until done.call },
    "it lets others go first" => ->(scheduler, done) { scheduler.yield until done.call },
    "it sleeps" => ->(_scheduler, done) { sleep(0.001) until done.call },
    "it waits for a time" => ->(scheduler, done) { scheduler.sleep_at_once(0.001) until done.call },
    "it waits for something else" => ->(scheduler, done) { scheduler.block_at_once(:else, 0.001) until done.call },
    "it waits for a mutex" => ->(scheduler, done) { scheduler.block_at_once(Mutex.new, 0.001) until done.call },
    "it waits for an IO" => lambda do |scheduler, done|
      reader, writer = IO.pipe
      scheduler.io_wait(reader, IO::READABLE, 0.001) until done.call
      [reader, writer].each(&:close)
    end
  }.freeze

  # Those of Ruby's waits that call the hook block.
  BLOCKED = WAYS.dup.freeze
  # A signal ends a sleep of the hook's own, which cannot be told from that of the ConditionVariable.
  SLEPT = WAYS.except("it waits for a time").freeze

  def test_queue
    each_way(BLOCKED) do |late|
      queue = Queue.new
      late.wakes { queue << :item }
      assert_equal :item, queue.pop
    end
  end

  def test_queue_that_is_closed
    each_way(BLOCKED) do |late|
      queue = Queue.new
      late.wakes { queue.close }
      assert_nil queue.pop
    end
  end

  def test_sized_queue
    each_way(BLOCKED) do |late|
      queue = SizedQueue.new(1)
      queue << :first
      late.wakes { queue.pop }
      queue << :second
      assert_equal :second, queue.pop
    end
  end

  def test_join_and_value
    each_way(BLOCKED) do |late|
      gate = Queue.new
      thread = Thread.new { gate.pop }
      late.wakes { (gate << :value) && Thread.pass while thread.alive? }
      assert_same thread, thread.join
      assert_equal :value, thread.value
    end
  end

  def test_mutex
    each_way(BLOCKED) do |late|
      mutex = Mutex.new
      gate = Queue.new
      late.holds(mutex, gate)
      mutex.synchronize { assert_predicate mutex, :owned? }
    end
  end

  def test_condition_variable
    [[], [60]].each do |limit|
      each_way(SLEPT) do |late|
        mutex = Mutex.new
        variable = ConditionVariable.new
        late.wakes { mutex.synchronize { variable.signal } }
        mutex.synchronize { variable.wait(mutex, *limit) }
      end
    end
  end

  def test_condition_of_a_monitor
    each_way(SLEPT) do |late|
      monitor = Monitor.new
      condition = monitor.new_cond
      ready = false
      late.wakes { monitor.synchronize { (ready = true) && condition.broadcast } }
      monitor.synchronize { condition.wait_until { ready } }
    end
  end

  # No hook is overridden, but another thread runs where they are called.
  def test_threads_that_are_switched_by_a_trace
    queue = Queue.new
    variable = ConditionVariable.new
    mutex = Mutex.new
    { block: [-> { queue.pop }, -> { queue << 1 }],
      kernel_sleep: [-> { mutex.synchronize { variable.wait(mutex) } },
                     -> { mutex.synchronize { variable.signal } }] }.each do |hook, (wait, wake)|
      met = false
      with_scheduler { Fiber.schedule { met = traced(hook, wake) { wait.call } } }
      assert met, "#{hook} was not called"
    end
  end

  def test_a_wake_up_of_ones_own_is_kept_for_the_next_wait
    in_fiber do |scheduler|
      took = seconds do
        scheduler.unblock(:any, Fiber.current)
        assert_equal true, scheduler.block(:any, 60)
        scheduler.unblock(:any, Fiber.current)
        sleep
      end
      assert_operator took, :<, 30
      assert_equal false, scheduler.block(:any, 0.001), "it counts once"
    end
  end

  # Two that come together are one.
  def test_a_wake_up_that_is_repeated_counts_once
    in_fiber do |scheduler|
      3.times { scheduler.unblock(:any, Fiber.current) }
      assert scheduler.block(:any, 60)
      refute scheduler.block(:any, 0.001)
    end
  end

  def test_a_wake_up_does_not_shorten_a_sleep_with_an_end
    in_fiber do |scheduler|
      [:any, ConditionVariable.new, Queue.new].each { |blocker| scheduler.unblock(blocker, Fiber.current) }
      assert_operator seconds { sleep 0.02 }, :>=, 0.019
    end
  end

  # What Ruby's own classes have sent is for their own waits, which may have ended before.
  def test_a_stale_wake_up_does_not_end_an_unrelated_wait
    in_fiber do |scheduler|
      blockers = [Queue.new, SizedQueue.new(1), Mutex.new, Thread.current, ConditionVariable.new]
      blockers.each { |blocker| scheduler.unblock(blocker, Fiber.current) }
      refute scheduler.block(:other, 0.01)
      refute scheduler.block(Queue.new, 0.01)
      fiber = Fiber.current
      rested = false
      Fiber.schedule { sleep(0.02) && (rested = true) && scheduler.unblock(:rest, fiber) }
      sleep
      assert rested, "a sleep without end ended too early"
    end
  end

  # The signal comes when the wait is over and the mutex is to be locked again.
  def test_a_signal_that_comes_too_late_does_not_end_a_sleep
    mutex = Mutex.new
    variable = ConditionVariable.new
    with_scheduler do |scheduler|
      rested = false
      fiber = Fiber.schedule do
        mutex.synchronize { variable.wait(mutex, 0.001) }
        sleep
        assert rested
      end
      Fiber.schedule do
        mutex.synchronize { sleep(0.01) && variable.signal }
        nothing_for(0.02) { fiber.alive? }
        rested = true
        scheduler.unblock(:rest, fiber)
      end
    end
  end

  # Where Ruby tells one method of a name from another.
  def test_a_stale_wake_up_does_not_end_a_method_wait_of_ones_own
    skip "Ruby names classes from 3.4 on" unless caller_locations(0, 1).first.label.include?("#")
    with_scheduler do |scheduler|
      rested = false
      fiber = Fiber.schedule { wait && assert(rested) }
      scheduler.unblock(Mutex.new, fiber)
      Fiber.schedule { sleep(0.01) && (rested = true) && scheduler.unblock(:rest, fiber) }
    end
  end

  def test_wake_ups_for_fibers_that_have_ended_are_forgotten
    with_scheduler do |scheduler|
      before = fiber_count
      1000.times { Fiber.schedule { scheduler.unblock(:any, Fiber.current) } }
      assert_operator fiber_count - before, :<, 500
    end
  end

  def test_whatever_is_given_for_a_fiber
    in_fiber do |scheduler|
      [nil, 1, Object.new, Thread.current].each { |other| assert_nil scheduler.unblock(:any, other) }
    end
  end

  # A waiter that is woken in the middle of its hook.
  class Meeting
    def initialize(scheduler, way)
      @scheduler = scheduler
      @way = way
      @done = false
    end

    # The current fiber waits next, and another thread calls the block in the hook.
    def wakes(&block)
      @scheduler.before = lambda do
        thread = Thread.new { block.call && @done = true }
        @way.call(@scheduler, -> { @done || !thread.alive? })
      end
    end

    # Another thread holds the mutex until the current fiber is in its hook.
    def holds(mutex, gate)
      held = Queue.new
      thread = Thread.new { mutex.synchronize { (held << true) && gate.pop } }
      Thread.pass while held.empty?
      @scheduler.before = lambda do
        gate << true
        @way.call(@scheduler, -> { !thread.alive? })
      end
    end
  end

  private

  def wait = sleep

  def fiber_count
    GC.start
    ObjectSpace.each_object(Fiber).count
  end

  def each_way(ways)
    ways.each do |name, way|
      error = nil
      thread = Thread.new do
        Fiber.set_scheduler(scheduler = Late.new)
        Fiber.schedule { yield Meeting.new(scheduler, way) }
        scheduler.close
        error = scheduler.errors.first
      end
      assert thread.join(DEADLINE / 4), "hangs when #{name}"
      raise error if error
    ensure
      thread.kill
    end
  end

  # Calls the block; when `hook` is called in it, another thread has its turn until it has called `wake`. Returns
  # whether that was so.
  def traced(hook, wake)
    met = false
    trace = TracePoint.new(:c_call) do |point|
      next unless point.method_id == hook

      met = true
      trace.disable
      thread = Thread.new(&wake)
      Thread.pass while thread.alive?
    end
    trace.enable(target_thread: Thread.current)
    yield
    met
  ensure
    trace.disable
  end
end
