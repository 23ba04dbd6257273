# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"

class SleepTest < Minitest::Test
  include SchedulerCase

  # When each is due is the scheduler's to say: between two starts any time may pass.
  def test_fibers_sleep_at_the_same_time_and_wake_in_order
    sleeps = {}.compare_by_identity # fiber => [how long, since when at the earliest]
    woken = [] # [fiber, when]
    due = listed = nil
    with_scheduler do |scheduler|
      60.times do |i|
        time = 0.2 + (i * 7 % 60 * 0.003)
        start = SchedulerCase.clock
        sleeps[Fiber.schedule { sleep(time) && (woken << [Fiber.current, SchedulerCase.clock]) }] = [time, start]
      end
      listed = SchedulerCase.clock
      due = scheduler.fibers.to_h { |entry| [entry[:fiber], entry[:until]] }
    end
    assert_equal 60, due.size, "all of them sleep at once"
    sleeps.each { |fiber, (time, start)| assert_includes (start + time)..(listed + time), due.fetch(fiber) }
    assert_equal due.keys.sort_by(&due), woken.map(&:first)
    woken.each { |fiber, clock| assert_operator clock, :>=, due.fetch(fiber) }
  end

  def test_equal_deadlines_fire_in_the_order_of_their_sleeps
    order = []
    with_scheduler { 20.times { |i| Fiber.schedule { sleep(0.02) && (order << i) } } }
    assert_equal (0...20).to_a, order
  end

  def test_a_fiber_starts_at_once
    order = []
    with_scheduler do
      Fiber.schedule do
        order << 1
        sleep 0
        order << 4
      end
      order << 2
      Fiber.schedule { order << 3 }
    end
    assert_equal [1, 2, 3, 4], order
  end

  def test_a_fiber_scheduled_by_a_fiber_starts_at_once
    order = []
    with_scheduler do
      Fiber.schedule do
        Fiber.schedule do
          order << 1
          sleep 0.01
          order << 4
        end
        order << 2
        Fiber.schedule { order << 3 }
      end
    end
    assert_equal [1, 2, 3, 4], order
  end

  def test_zero_lets_others_run
    order = []
    with_scheduler do
      2.times do |i|
        Fiber.schedule do
          3.times do
            order << i
            sleep 0
          end
        end
      end
    end
    assert_equal [0, 1, 0, 1, 0, 1], order
  end

  def test_a_busy_fiber_does_not_starve_timers_and_descriptors
    reader, writer = IO.pipe
    done = []
    with_scheduler do
      Fiber.schedule { done << reader.gets }
      Fiber.schedule { sleep(0.02) && (done << :timer) }
      Fiber.schedule { sleep(0.01) && writer.puts("text") }
      Fiber.schedule { sleep 0 until done.size == 2 }
    end
    # On a busy machine both may come in the same turn.
    assert_equal ["text\n", :timer], done.sort_by(&:to_s)
  end

  def test_bad_durations_are_refused
    in_fiber do
      assert_raises(ArgumentError) { sleep(-1) }
      assert_raises(TypeError) { sleep("1") }
      assert_raises(ArgumentError) { Fiber.scheduler.kernel_sleep(Float::NAN) }
      assert_raises(ArgumentError) { Fiber.scheduler.block(:x, -0.1) }
    end
  end

  def test_ten_thousand_sleeps
    count = 0
    with_scheduler { 10_000.times { Fiber.schedule { sleep(0.1) && count += 1 } } }
    assert_equal 10_000, count
  end

  def test_wait_in_a_fiber_that_the_root_fiber_resumed
    other = nil
    with_scheduler do
      Fiber.schedule { sleep(0.01) && other = :ran }
      # When both are due at once it may go on before the other.
      fiber = Fiber.new { sleep(0.03) until other }
      fiber.resume
      refute_predicate fiber, :alive?
    end
  end

  # The turn that wakes it must not end in a wait for the others.
  def test_a_wait_of_the_root_fiber_beside_others
    with_scheduler do |scheduler|
      queue = Queue.new
      other = Fiber.schedule { scheduler.block(:other, 60) }
      took = seconds do
        30.times do
          Fiber.schedule { sleep(0.001) && sleep(0) && (queue << :value) }
          assert_equal(:value, Fiber.new { queue.pop }.resume)
        end
      end
      scheduler.unblock(:other, other)
      assert_operator took, :<, 19
    end
  end

  def test_wait_in_a_fiber_that_a_fiber_resumed
    values = in_fiber do
      fiber = Fiber.new do
        sleep 0.01
        Fiber.yield 1
        sleep 0.01
        2
      end
      [fiber.resume, fiber.resume]
    end
    assert_equal [1, 2], values
  end

  def test_wait_in_an_enumerator
    values = in_fiber do
      enumerator = Enumerator.new do |yielder|
        3.times do |i|
          sleep 0.005
          yielder << i
        end
      end
      Array.new(3) { enumerator.next }
    end
    assert_equal [0, 1, 2], values
  end
end
