# frozen_string_literal: true

require "test_helper"
require "json"
require_relative "../../bench/guard"

# bench/baseline.json: what is beyond it, and what an update writes.
class GuardBaselineTest < Minitest::Test
  Counts = Bench::Guard::Counts

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "baseline.json")
  end

  def teardown = FileUtils.rm_rf(@folder)

  def baseline(kind = "here") = Bench::Guard::Baseline.new(@path, kind: kind)

  def counts(instructions:, objects: 10, mallocs: 3, calls: 4)
    Counts.new(objects: objects, mallocs: mallocs, calls: { "recv" => calls }, functions: { "run" => instructions })
  end

  # What has changed beyond the limit since 10 objects, 3 mallocs, 4 system calls and 10,000 instructions.
  def changes(row = "hello", **now)
    baseline.update(row => counts(instructions: 10_000))
    baseline.changes(row => counts(instructions: 10_000, **now)).map(&:to_s)
  end

  def test_what_is_the_same_is_no_change = assert_empty(changes)

  def test_3_percent_are_no_change
    assert_empty changes(instructions: 10_300)
    assert_equal ["hello: instructions 10000 -> 10301, +301 (+3.0 %)"], changes(instructions: 10_301)
  end

  def test_one_more_is_a_change
    assert_equal ["hello: objects 10 -> 11, +1 (+10.0 %)"], changes(objects: 11)
    assert_equal ["hello: mallocs 3 -> 4, +1 (+33.3 %)"], changes(mallocs: 4)
    assert_equal ["hello: system calls 4 -> 5, +1 (+25.0 %)"], changes(calls: 5)
  end

  def test_one_more_is_a_change_among_many
    baseline.update("http2" => counts(instructions: 30_000, mallocs: 60))
    assert_equal 1, baseline.changes("http2" => counts(instructions: 30_000, mallocs: 61)).size
  end

  def test_a_row_that_is_a_difference_has_the_accidents_of_two
    baseline.update("env" => counts(instructions: 2000))
    assert_empty baseline.changes("env" => counts(instructions: 2100))
    assert_equal 1, baseline.changes("env" => counts(instructions: 2101)).size
  end

  def test_what_is_less_comes_last
    now = counts(instructions: 9000, objects: 11)
    baseline.update("hello" => counts(instructions: 10_000))
    assert_equal([true, false], baseline.changes("hello" => now).map(&:worse?))
  end

  def test_a_new_row_is_more_than_nothing
    baseline.update("hello" => counts(instructions: 10_000))
    assert_equal 4, baseline.changes("http2" => counts(instructions: 1)).size
  end

  def test_an_update_leaves_other_rows_and_other_machines
    baseline("there").update("hello" => counts(instructions: 1))
    baseline.update("hello" => counts(instructions: 2), "env" => counts(instructions: 3))
    baseline.update("hello" => counts(instructions: 4))
    rows = JSON.parse(File.read(@path)).transform_values do |entry|
      entry["rows"].transform_values { |row| row["instructions"] }
    end
    assert_equal({ "here" => { "hello" => 4, "env" => 3 }, "there" => { "hello" => 1 } }, rows)
  end

  def test_each_figure_of_several_counts_is_the_least
    least = Counts.least([counts(instructions: 5, calls: 7), counts(instructions: 6, calls: 4)])
    assert_equal [5, 4.0], least.to_h.values_at(:instructions, :system_calls)
  end

  # A function's calls have a line of their own, with what they cost.
  def test_a_profile_has_what_each_function_does_itself
    path = File.join(@folder, "profile")
    File.write(path, <<~TEXT)
      events: Ir sysCount sysTime
      fn=(1) run
      0 100
      +3 20 0 0
      cob=(2) libc.so.6
      cfn=(2) malloc
      calls=3 0
      * 900
      cfn=(3) send@@GLIBC_2.2.5
      calls=2 0
      * 40 2 9
      fn=(3)
      0 40 2 9
      fn=(4) __lll_lock_wake
      0 5 1 1
      totals: 165 3 10
    TEXT
    profile = Bench::Guard::Profile.new(path)
    assert_equal({ "run" => 120, "send" => 40, "__lll_lock_wake" => 5 }, profile.functions)
    assert_equal [165, 3, { "send" => 2 }], [profile.instructions, profile.mallocs, profile.system_calls]
  end
end
