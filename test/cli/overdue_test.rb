# frozen_string_literal: true

require "test_helper"
require "abaca"

# The clock that ends the process: what comes at its moments of change.
class OverdueTest < Minitest::Test
  # Returns the status of a process that runs the block, and ends with 0 after `seconds`.
  def status(seconds = 0.5, start: true)
    pid = fork do
      overdue = Abaca::Launcher::Overdue.new { nil }
      overdue.start if start
      yield overdue
      sleep seconds
      exit!(0)
    end
    Process.wait2(pid).last.exitstatus
  end

  def test_the_time_is_over
    assert_equal(1, status(30) { |overdue| overdue.give(0.01) })
    assert_equal 1, status(30, &:now)
    assert_equal 0, status { |overdue| [0.01, nil].each { |seconds| overdue.give(seconds) } }
    assert_equal 0, status { |overdue| [overdue.give(0.01), overdue.cancel] }
    assert_equal(0, status { |overdue| [0.01, 60].each { |seconds| overdue.give(seconds) } })
    assert_equal(1, status(30) { |overdue| [60, 0.01].each { |seconds| overdue.give(seconds) } })
  end

  # A wait for so many would raise, in a thread that says so and leaves the server to itself.
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

  def test_a_stop_that_comes_before_there_is_a_thread
    assert_equal(1, status(30, start: false) do |overdue|
      overdue.now
      overdue.start
    end)
  end

  # In a trap handler, when there is no thread to be had any more.
  def test_it_needs_no_thread
    assert_equal(1, status(30) do |overdue|
      Thread.singleton_class.send(:undef_method, :new)
      trap("USR2") { overdue.now }
      Process.kill("USR2", Process.pid)
    end)
  end

  # What a handler does while the pipe is full has its effect.
  def test_more_signals_than_the_pipe_holds
    assert_equal(1, status(30, start: false) do |overdue|
      70_000.times { overdue.give(60) }
      overdue.now
      overdue.start
    end)
  end

  def test_a_forked_child
    assert_equal(0, status do |overdue|
      child = fork do
        overdue.forget
        overdue.now
        exit!(2)
      end
      exit!(3) unless Process.wait2(child).last.exitstatus == 2
    end)
  end
end
