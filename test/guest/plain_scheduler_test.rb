# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/plain_scheduler"

# The schedulers that other tests run servers on.
class PlainSchedulerTest < Minitest::Test
  # A thread that wakes a fiber may be held up at any step: the loop must not take the fiber for one that has ended.
  def test_who_is_being_woken_is_not_lost
    [PlainScheduler, TransferringScheduler].each do |scheduler|
      ended = false
      home = Thread.new do
        Fiber.set_scheduler(scheduler.new)
        Fiber.schedule { ended = Thread.new { sleep 0.01 }.join }
        Fiber.schedule { sleep 0.05 } # whose end lets the loop look whether anybody is left
        Fiber.set_scheduler(nil)
      end
      slow_wakes(home) { assert home.join(20) }
      assert ended
    end
  end

  private

  # Other threads than `home` take their time in #unblock.
  def slow_wakes(home, &block)
    trace = TracePoint.new(:c_return) do |point|
      next unless %i[delete <<].include?(point.method_id) && Thread.current != home

      over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.2
      Thread.pass until Process.clock_gettime(Process::CLOCK_MONOTONIC) > over
    end
    trace.enable(target_thread: nil, &block)
  end
end
