# frozen_string_literal: true

require "test_helper"
require "support/page_of_tests"
require "abaca/fiber_pool"
require "abaca/scheduler"

# docs/scheduler_conformance.md names tests for each hook and rule: they exist, no hook and no reason to end a
# fiber is left out, and no test of the interface goes unmentioned.
class SchedulerConformanceTest < Minitest::Test
  include PageOfTests

  PAGE = "scheduler_conformance.md"
  VERSION = /\A(all|never|\d\.\d)\b/

  # The tables, by title: rows of cells.
  def tables
    page.scan(/^## ([^\n]+)\n(.*?)(?=^## |\z)/m).to_h do |title, text|
      [title, text.scan(/^\| (?!-)(.+) \|$/).flatten.map { |row| row.split(" | ").map(&:strip) }.drop(1)]
    end
  end

  def test_every_hook_has_a_row
    hooks = tables.fetch("Hooks").flat_map { |row| row.first.scan(/`([^`]+)`/).flatten }.map(&:to_sym)
    assert_equal hooks.uniq, hooks
    public = Abaca::Scheduler.public_instance_methods(false) + [:blocking_operation_wait]
    assert_equal public.sort, hooks.sort
  end

  def test_every_reason_to_end_a_fiber_has_a_row
    rules = tables.fetch("The fibers of a pool").map(&:first).join(" ")
    Abaca::FiberPool.new.stats.fetch(:retired).each_key { |reason| assert_includes rules, "`#{reason}`" }
  end

  def test_every_row_has_versions_and_tests
    tables.each do |title, rows|
      refute_empty rows, title
      rows.each do |row|
        assert_match VERSION, row[1], row.first
        assert_match(%r{`[a-z0-9_]+/[a-z0-9_]+#[\w*]}, row.last, row.first)
      end
    end
  end

  def test_no_test_of_the_interface_goes_unmentioned
    assert_empty unmentioned(%w[scheduler/hooks scheduler/switch scheduler/buffer scheduler/interface4 scheduler/block
                                scheduler/preempt pool/scrub]).grep_v(/many_fibers_woken|bad_quanta/)
  end
end
