# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "abaca/fiber_pool"

class LeakReportTest < Minitest::Test
  include SchedulerCase

  def setup
    super
    @report = Abaca::FiberPool.const_get(:LeakReport)
    @report.clear
  end

  def teardown
    Abaca::FiberPool.leak_report = false
    @report.clear
    super
  end

  # Returns what is written to $stderr while the jobs run one after another on the same fiber.
  def report_of(*jobs)
    old = $stderr
    $stderr = StringIO.new
    with_scheduler do
      Abaca::FiberPool.leak_report = true
      pool = Abaca::FiberPool.new(max: 1)
      jobs.each { |job| pool.run(&job).value }
    ensure
      Abaca::FiberPool.leak_report = false
    end
    $stderr.string
  ensure
    $stderr = old
  end

  def test_a_local_is_reported_with_its_place
    line = __LINE__ + 1
    text = report_of(-> { Thread.current[:left_behind] = 1 })
    leak = Abaca::FiberPool.leaks.fetch(0)
    assert_equal %i[local left_behind], [leak.kind, leak.key]
    assert_match(/#{Regexp.escape(__FILE__)}:#{line}/, leak.backtrace.first)
    assert_equal [__FILE__, line], leak.job
    assert_match(/left_behind/, text)
    assert_match(/:#{line}/, text)
  end

  def test_each_key_once
    text = report_of(*[-> { Thread.current[:left_behind] = 1 }] * 5, -> { Thread.current["other"] = 1 })
    assert_equal 2, text.scan("was left behind").size
    assert_equal %i[left_behind other], Abaca::FiberPool.leaks.map(&:key)
  end

  def test_what_is_taken_back_is_no_leak
    text = report_of(lambda {
      Thread.current[:tidy] = 1
      Thread.current[:tidy] = nil
    })
    assert_empty text
    assert_empty Abaca::FiberPool.leaks
  end

  def test_the_accessor_of_a_library
    Fiber.attr_accessor :leak_report_state unless Fiber.method_defined?(:leak_report_state)
    report_of(-> { Fiber.current.leak_report_state = {} }, -> { assert_nil Fiber.current.leak_report_state })
    leak = Abaca::FiberPool.leaks.fetch(0)
    assert_equal %i[variable @leak_report_state], [leak.kind, leak.key]
    assert_match(/#{Regexp.escape(__FILE__)}/, leak.backtrace.first)
  end

  def test_a_variable_by_its_name
    line = __LINE__ + 1
    report_of(-> { assert_equal 1, Fiber.current.instance_variable_set("@bare", 1) })
    leak = Abaca::FiberPool.leaks.fetch(0)
    assert_equal %i[variable @bare], [leak.kind, leak.key]
    assert_match(/#{Regexp.escape(__FILE__)}:#{line}/, leak.backtrace.first)
  end

  def test_a_variable_of_another_fiber_is_not_the_job_s
    other = Fiber.new { nil }
    assert_empty report_of(-> { other.instance_variable_set(:@other, 1) })
    assert_equal 1, other.instance_variable_get(:@other)
    assert_equal [:@other], other.instance_variables
    report_of(-> { assert_raises(NameError) { Fiber.current.instance_variable_set("bad name", 1) } })
    assert_empty Abaca::FiberPool.leaks
  end

  def test_a_variable_without_a_place
    text = report_of(-> { Fiber.current.instance_eval { @bare = 1 } })
    assert_match(/@bare .* unknown place/, text)
    assert_equal [:@bare], Abaca::FiberPool.leaks.map(&:key)
  end

  def test_storage
    skip "fiber storage is of Ruby 3.2" unless Fiber.respond_to?(:[]=)
    report_of(-> { Fiber[:stored] = 1 })
    leak = Abaca::FiberPool.leaks.fetch(0)
    assert_equal %i[storage stored], [leak.kind, leak.key]
    refute_empty leak.backtrace
  end

  def test_nothing_is_left_of_the_report_itself
    seen = nil
    report_of(-> { Thread.current[:a] = 1 }, -> { seen = [Thread.current.keys, Fiber.current.instance_variables] })
    assert_equal [[], []], seen
    Thread.current[:leak_report_test] = 1
    refute_includes Fiber.current.instance_variables, :@__abaca_leak_sites
    assert_raises(TypeError) { Thread.current[nil] = 1 }
  ensure
    Thread.current[:leak_report_test] = nil
  end

  def test_on_and_off_again
    refute Abaca::FiberPool.leak_report
    3.times do
      Abaca::FiberPool.leak_report = 1
      assert_equal true, Abaca::FiberPool.leak_report
      Abaca::FiberPool.leak_report = nil
      assert_equal false, Abaca::FiberPool.leak_report
    end
    with_scheduler { Abaca::FiberPool.new.run { Thread.current[:unseen] = 1 }.value }
    assert_empty Abaca::FiberPool.leaks
  end

  def test_a_report_that_cannot_be_written
    old = $stderr
    with_scheduler do
      Abaca::FiberPool.leak_report = true
      pool = Abaca::FiberPool.new(max: 1)
      $stderr = Class.new { def write(*) = raise(IOError, "closed") }.new
      pool.run { Thread.current[:a] = 1 }.value
      $stderr = old
      assert_equal [], pool.run { Thread.current.keys }.value
      assert_equal 0, pool.stats[:retired].values.sum
    end
  ensure
    $stderr = old
  end
end
