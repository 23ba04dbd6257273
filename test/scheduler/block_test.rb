# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "monitor"
require "support/scheduler_case"
require "timeout"

class BlockTest < Minitest::Test
  include SchedulerCase

  def test_queue_between_fibers
    queue = Queue.new
    got = []
    with_scheduler do
      Fiber.schedule { 3.times { got << queue.pop } }
      Fiber.schedule { 3.times { |i| sleep(0.001) && (queue << i) } }
    end
    assert_equal [0, 1, 2], got
  end

  def test_sized_queue_holds_the_producer_back
    queue = SizedQueue.new(1)
    got = []
    with_scheduler do
      Fiber.schedule { 20.times { |i| queue << i } && queue.close }
      Fiber.schedule do
        while (value = queue.pop)
          got << value
        end
      end
    end
    assert_equal (0...20).to_a, got
  end

  def test_mutex_between_fibers
    mutex = Mutex.new
    inside = 0
    most = 0
    with_scheduler do
      10.times do
        Fiber.schedule do
          mutex.synchronize do
            most = [most, inside += 1].max
            sleep 0.002
            inside -= 1
          end
        end
      end
    end
    assert_equal 1, most
  end

  def test_condition_variable_with_and_without_timeout
    mutex = Mutex.new
    variable = ConditionVariable.new
    ready = false
    in_fiber do
      Fiber.schedule { sleep(0.01) && mutex.synchronize { ready = true } && variable.broadcast }
      mutex.synchronize { variable.wait(mutex) until ready }
      took = seconds { mutex.synchronize { variable.wait(mutex, 0.02) } }
      assert_operator took, :>=, 0.019
    end
    assert ready
  end

  # Ruby before 3.4 does not lock the mutex again, and takes it from its owner.
  def test_a_condition_whose_wait_is_broken_off_has_its_mutex_again
    order = []
    monitor = Monitor.new
    condition = monitor.new_cond
    with_scheduler do
      waiter = Fiber.schedule do
        monitor.synchronize do
          condition.wait
        ensure
          order << (monitor.mon_owned? ? :waiter : :robber)
        end
      rescue KeyError
        order << :told
      end
      Fiber.schedule do
        monitor.synchronize do
          waiter.raise(KeyError, "no more")
          sleep 0
          order << (monitor.mon_owned? ? :holder : :robbed)
        end
      end
    end
    assert_equal %i[holder waiter told], order
    assert monitor.try_enter
  end

  def test_a_mutex_whose_sleep_is_broken_off_is_locked_again
    mutex = Mutex.new
    in_fiber do
      assert_raises(Timeout::Error) { mutex.synchronize { Timeout.timeout(0.001) { mutex.sleep } } }
      refute mutex.locked?
      assert_raises(ThreadError) { mutex.sleep }
      refute mutex.locked?
      assert_raises(ArgumentError) { mutex.synchronize { mutex.sleep(-1) } }
      refute mutex.locked?
    end
  end

  def test_block_tells_woken_from_timed_out
    with_scheduler do |scheduler|
      Fiber.schedule { assert_equal false, scheduler.block(:nothing, 0.01) }
      fiber = Fiber.schedule { assert_equal true, scheduler.block(:something, 60) }
      Fiber.schedule { scheduler.unblock(:something, fiber) }
    end
  end

  # Wakes in an order of its own, while others begin to wait.
  def test_many_fibers_woken_in_any_order
    random = Random.new(1)
    woken = Hash.new(0)
    with_scheduler do |scheduler|
      fibers = Array.new(3000) do |i|
        Fiber.schedule { 3.times { assert(scheduler.block(i, 60)) && (woken[i] += 1) } }
      end
      Fiber.schedule do
        3.times do
          fibers.each_with_index.to_a.shuffle(random: random).each_slice(100) do |slice|
            slice.each { |fiber, i| scheduler.unblock(i, fiber) }
            sleep 0
          end
        end
      end
    end
    assert_equal [3], woken.values.uniq
    assert_equal 3000, woken.size
  end

  def test_late_and_spurious_unblocks_are_ignored
    with_scheduler do |scheduler|
      dead = Fiber.schedule { nil }
      fiber = Fiber.schedule do
        assert scheduler.block(:once, 60)
        took = seconds { sleep 0.02 }
        assert_operator took, :>=, 0.019
      end
      reader, writer = IO.pipe
      waiter = Fiber.schedule { assert_equal false, scheduler.io_wait(reader, IO::READABLE, 0.03) }
      3.times { scheduler.unblock(:once, fiber) }
      scheduler.unblock(:dead, dead)
      scheduler.unblock(:io, waiter)
      scheduler.unblock(:root, Fiber.current)
      assert_predicate waiter, :alive?
      Fiber.schedule { sleep(0.05) && writer.close }
    end
  end

  # The number of writes to each eventfd of this process.
  def eventfds
    Dir["/proc/self/fdinfo/*"].filter_map do |path|
      text = File.read(path)
      count = text[/^eventfd-count:\s*(\h+)/, 1]
      [text[/^eventfd-id:\s*(\d+)/, 1] || path, count.hex] if count
    rescue SystemCallError
      nil
    end.to_h
  end

  # The loop sleeps in the kernel only when no fiber is ready, and only then has to be woken there.
  def test_a_wake_up_costs_no_system_call_unless_the_loop_sleeps
    need_poller("epoll") # which is woken by an eventfd
    others = eventfds.keys
    with_scheduler do |scheduler|
      own = (eventfds.keys - others).first
      written = -> { eventfds.fetch(own) }
      woken = 0
      done = false
      fiber = Fiber.schedule { scheduler.block(:x, 60) && woken += 1 until done }
      Thread.new { scheduler.unblock(:x, fiber) }.join
      Fiber.schedule do
        100.times { scheduler.unblock(:x, fiber) || sleep(0) }
        assert_operator woken, :>=, 100
        assert_equal 0, written.call
        limit = SchedulerCase.clock + 10
        Thread.new do
          sleep(0.01) && scheduler.unblock(:x, fiber) until written.call.positive? || SchedulerCase.clock > limit
          done = true
          scheduler.unblock(:x, fiber)
        end.join
        assert_operator written.call, :>, 0
      end
    end
  end

  def test_threads_wake_a_blocked_loop
    queue = Queue.new
    took = seconds do
      in_fiber do
        Fiber.schedule { sleep 60 }.then do |sleeper| # what would wake the loop otherwise
          Thread.new { sleep(0.03) && (queue << :thread) }
          assert_equal :thread, queue.pop
          Fiber.scheduler.unblock(:sleep, sleeper)
        end
      end
    end
    assert_operator took, :<, 19
  end

  # A thread that has been woken answers before the loop blocks, which needs no wake-up then. On a busy machine the
  # thread may have no processor meanwhile, but not in each of many tries.
  def test_a_thread_that_answers_needs_no_wake_up
    skip "such a thread waits for the lock from Ruby 3.3 on" if RUBY_VERSION < "3.3"
    skip "needs /proc/thread-self/io" unless File.readable?("/proc/thread-self/io")
    assert((1..30).any? { writes_of_answers(200) < 100 }, "each answer wakes the loop")
  end

  # The system calls for writing that a thread makes while it answers a fiber `count` times.
  def writes_of_answers(count)
    there = Queue.new
    back = Queue.new
    writes = -> { File.read("/proc/thread-self/io")[/^syscw: (\d+)/, 1].to_i }
    thread = Thread.new do
      before = writes.call
      count.times { back << there.pop }
      writes.call - before
    end
    in_fiber { count.times { |i| (there << i) && assert_equal(i, back.pop) } }
    thread.value
  end

  def test_join_and_value_of_threads
    in_fiber do
      assert_equal 3, Thread.new { sleep(0.01) && 3 }.value
      # Ruby 3.1 ignores what the scheduler says of the time-out.
      sleeper = Thread.new { sleep }
      assert_nil sleeper.join(0.01) if RUBY_VERSION >= "3.2"
      sleeper.kill
      error = assert_raises(RuntimeError) do
        Thread.new do
          Thread.current.report_on_exception = false
          raise "thread"
        end.join
      end
      assert_equal "thread", error.message
    end
  end

  def test_two_schedulers_in_two_threads
    there = Queue.new
    back = Queue.new
    echo = Thread.new { with_scheduler { Fiber.schedule { 200.times { back << there.pop } } } }
    in_fiber { 200.times { |i| assert_equal i, (there << i) && back.pop } }
    assert echo.join(SchedulerCase::DEADLINE)
  end

  # Each value must arrive: a lost wake-up hangs it.
  def test_wake_ups_from_many_threads
    queues = Array.new(4) { Queue.new }
    limit = SchedulerCase.clock + 2
    sent = Array.new(4, 0)
    got = Array.new(4, 0)
    senders = queues.each_with_index.map do |queue, i|
      Thread.new do
        while SchedulerCase.clock < limit
          queue << 1
          sent[i] += 1
          sleep(0.0002) if (sent[i] % (7 + i)).zero?
        end
        queue << nil
      end
    end
    with_scheduler { queues.each_with_index { |queue, i| Fiber.schedule { got[i] += 1 while queue.pop } } }
    senders.each(&:join)
    assert_equal sent, got
  end

  def test_subclass_may_override_and_call_super
    calls = []
    subclass = Class.new(Abaca::Scheduler) do
      define_method(:block) { |*arguments| (calls << :block) && super(*arguments) }
      define_method(:unblock) { |*arguments| (calls << :unblock) && super(*arguments) }
    end
    Thread.new do
      Fiber.set_scheduler(subclass.new)
      queue = Queue.new
      Fiber.schedule { calls << queue.pop }
      Fiber.schedule { queue << :value }
    end.join
    assert_equal %i[block unblock value], calls
  end
end
