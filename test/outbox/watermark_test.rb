# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "timeout"
require "abaca/outbox"
require "support/plain_scheduler"
require "support/scheduler_case"

# Who writes too much waits until enough of it has gone.
class OutboxWatermarkTest < Minitest::Test
  include SchedulerCase

  def setup
    @out = Abaca::Outbox.new(high_watermark: 100, low_watermark: 40)
  end

  # A thread that waits, and what wait_writable gave it.
  def waiting
    Thread.new { @out.wait_writable }.tap { |thread| Thread.pass until thread.stop? }
  end

  def test_below_the_high_watermark
    assert_equal true, @out.wait_writable
    @out << ("x" * 100)
    assert_equal true, @out.wait_writable
    @out.close
    assert_equal false, @out.wait_writable
  end

  def test_shift_wakes_at_the_low_watermark
    @out << ("x" * 101)
    threads = Array.new(3) { waiting }
    @out.shift(60)
    threads.each { |thread| assert_nil thread.join(0.01) }
    @out.shift(1)
    assert_equal [true, true, true], threads.map(&:value)
  end

  def test_drain_wakes
    @out << ("x" * 200)
    thread = waiting
    @out.drain
    assert_equal true, thread.value
  end

  def test_close_wakes
    @out << ("x" * 200)
    thread = waiting
    @out.close
    assert_equal false, thread.value
    assert_equal false, @out.wait_writable
  end

  # Somebody else was faster, and the outbox is full again when the waiter runs.
  def test_a_waiter_looks_again
    @out << ("x" * 200)
    thread = waiting
    @out.drain
    @out << ("x" * 300)
    nothing_for(0.01) { thread.alive? }
    @out.drain
    assert_equal true, thread.value
  end

  def test_a_waiter_that_is_killed
    @out << ("x" * 200)
    thread = waiting
    thread.kill.join
    other = waiting
    @out.drain
    assert_equal true, other.value
  end

  def test_a_waiter_that_is_interrupted
    @out << ("x" * 200)
    thread = waiting
    thread.report_on_exception = false
    thread.raise(ArgumentError, "enough")
    assert_raises(ArgumentError) { thread.value }
    @out.drain
    assert_equal true, @out.wait_writable
  end

  # A producer and a consumer of one outbox: nothing is lost, and never much more than the watermark is
  # pending.
  def exchange
    most = 0
    got = +""
    Fiber.schedule do
      1000.times do |i|
        @out.wait_writable
        @out << i.to_s.rjust(4, "0")
        most = [most, @out.pending_bytes].max
      end
      @out.close
    end
    Fiber.schedule do
      take = proc { |slices| (got << slices.first[0, 33]) && [slices.first.size, 33].min }
      sleep 0.0001 while @out.serialize(&take) == :yield
    end
    -> { [got, most] }
  end

  def assert_exchanged(got, most)
    assert_equal (0...1000).map { |i| i.to_s.rjust(4, "0") }.join, got
    assert_operator most, :<=, 104
  end

  def test_fibers
    result = with_scheduler { exchange }
    assert_exchanged(*result.call)
  end

  def test_fibers_of_another_scheduler
    result = nil # Ruby 3.1 does not mark a thread's value while the end of the thread closes its scheduler
    Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      result = exchange
    end.join
    assert_exchanged(*result.call)
  end

  # Ruby may let another thread run at any allocation.
  def test_room_that_comes_while_a_wait_begins
    out = Abaca::Outbox.new(high_watermark: 10)
    out.write("x" * 100)
    waiter = Thread.current
    trace = TracePoint.new(:c_return) do |point|
      out.drain if point.method_id == :initialize && point.self.is_a?(Thread::Queue) && Thread.current == waiter
    end
    answer = trace.enable(target_thread: nil) { Timeout.timeout(20) { out.wait_writable } }
    assert_equal [true, 0], [answer, out.pending_bytes]
  end

  # Many threads at once: each call finds the outbox whole.
  def test_threads
    out = Abaca::Outbox.new(buffer: 100, high_watermark: 1000)
    got = +"".b
    writers = Array.new(4) do |i|
      Thread.new do
        500.times do
          out.wait_writable
          out.write(i.to_s * 50)
          out.schedule(i.to_s * 600)
        end
      end
    end
    reader = Thread.new do
      Thread.pass while out.serialize { |slices| slices.sum { |s| (got << s) && s.bytesize } } == :yield
    end
    writers.each(&:join)
    out.close
    reader.join
    assert_equal 4 * 500 * 650, got.bytesize
    4.times { |i| assert_equal 500 * 650, got.count(i.to_s) }
    assert_empty got.scan(/(.)\1*/).reject { |(digit)| digit.match?(/[0-3]/) }
  end
end
