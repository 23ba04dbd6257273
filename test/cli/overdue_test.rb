# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"

# The clock that ends the process: what comes at its moments of change.
class OverdueTest < Minitest::Test
  # Returns the status of a process that runs the block, and ends with 0 after `seconds`.
  def status(seconds = 0.5)
    pid = fork do
      yield Abaca::Launcher::Overdue.new { nil }
      sleep seconds
      exit!(0)
    end
    Process.wait2(pid).last.exitstatus
  end

  # What the block does comes when a thread has been started, and before it is known, as a trap handler may.
  def when_a_thread_starts
    trace = TracePoint.new(:c_return) do |point|
      next unless point.method_id == :new && point.self == Thread

      trace.disable
      yield
    end
    trace.enable
  end

  def test_the_time_is_over
    assert_equal(1, status(30) { |overdue| overdue.give(0.01) })
    assert_equal 1, status(30, &:now)
    assert_equal 0, status { |overdue| [0.01, nil].each { |seconds| overdue.give(seconds) } }
    assert_equal 0, status { |overdue| [overdue.give(0.01), overdue.cancel] }
  end

  # `sleep` would raise, in a thread that says so and leaves the server to itself.
  def test_more_seconds_than_the_clock_holds
    _out, said = capture_subprocess_io do
      [2**70, 1e300].each { |seconds| assert_equal(0, status(0.05) { |overdue| overdue.give(seconds) }) }
    end
    refute_match(/RangeError|terminated with exception/, said)
  end

  def test_a_stop_that_comes_when_the_server_has_ended
    assert_equal(0, status do |overdue|
      overdue.cancel
      overdue.give(0.01)
    end)
  end

  def test_the_end_while_time_is_given
    assert_equal(0, status do |overdue|
      when_a_thread_starts { overdue.cancel }
      overdue.give(0.01)
    end)
  end

  def test_time_that_is_given_while_time_is_given
    assert_equal(0, status do |overdue|
      when_a_thread_starts { overdue.give(60) }
      overdue.give(0.01)
    end)
    assert_equal(0, status do |overdue|
      when_a_thread_starts { overdue.give(0.01) }
      overdue.give(60)
      overdue.cancel
    end)
  end
end
