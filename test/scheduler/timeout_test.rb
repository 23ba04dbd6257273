# frozen_string_literal: true

require "test_helper"
require "support/scheduler_case"
require "socket"

class TimeoutTest < Minitest::Test
  include SchedulerCase

  class Own < StandardError; end

  def test_it_fires_in_a_wait
    in_fiber do
      took = seconds do
        error = assert_raises(Timeout::Error) { Timeout.timeout(0.02) { sleep 5 } }
        assert_equal "execution expired", error.message
      end
      assert_operator took, :>=, 0.019
      assert_operator took, :<, 4
    end
  end

  def test_it_never_fires_after_its_block
    in_fiber do
      assert_equal :value, Timeout.timeout(0.01) { :value }
      sleep 0.03
      50.times { Timeout.timeout(0.002) { sleep 0.0019 } rescue Timeout::Error } # rubocop:disable Style/RescueModifier
      sleep 0.02
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
      Fiber.schedule { (sleep 0.03) && (errors << :none) }
    end
    assert_equal %i[own none], errors
  end

  def test_inner_and_outer
    in_fiber do
      error = assert_raises(Own) { Timeout.timeout(0.01, Own) { Timeout.timeout(1) { sleep 5 } } }
      assert_equal "execution expired", error.message
      Timeout.timeout(1, Own) { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { sleep 5 } } }
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

  def test_every_kind_of_wait
    reader, = IO.pipe
    mutex = Mutex.new
    waits = {
      io: -> { reader.read(1) },
      queue: -> { Queue.new.pop },
      process: -> { Process.wait(spawn("sleep 0.8")) },
      block: -> { Fiber.scheduler.block(:nothing, nil) },
      select: -> { Fiber.scheduler.io_select([reader]) },
      mutex: -> { mutex.synchronize { nil } },
      fiber: -> { Fiber.new { sleep 5 }.resume },
      thread: -> { Thread.new { sleep 0.8 }.join }
    }
    with_scheduler do
      Fiber.schedule { mutex.synchronize { sleep 0.8 } }
      waits.each do |name, wait|
        Fiber.schedule { assert_raises(Timeout::Error, name.to_s) { Timeout.timeout(0.02) { wait.call } } }
      end
    end
  ensure
    begin
      Process.wait
    rescue Errno::ECHILD
      nil
    end
  end

  def test_many
    fired = 0
    with_scheduler do
      1000.times do |i|
        Fiber.schedule do
          Timeout.timeout(0.3 + (i % 10 * 0.001)) { sleep(i.even? ? 5 : 0.001) }
        rescue Timeout::Error
          fired += 1
        end
      end
    end
    assert_equal 500, fired
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
