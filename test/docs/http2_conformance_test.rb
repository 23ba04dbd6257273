# frozen_string_literal: true

require "test_helper"
require "support/http2_cases"
require "support/page_of_tests"

# docs/http2_conformance.md names tests for each requirement: they exist, and no case and no test of the room http2 goes
# unmentioned.
class Http2ConformanceTest < Minitest::Test
  include PageOfTests

  PAGE = "http2_conformance.md"
  LEAST = 40

  # [RFC, section] of a case: house/8.2.1/1 is about RFC 9113, house/8441/4/1 about RFC 8441.
  def self.about(id)
    *rfc, section, _number = id[/\A\S+/].delete_prefix("house/").split("/")
    [rfc.first || "9113", section]
  end

  CASES = Http2Cases.all.map { |the| about(the.id) }.uniq.freeze

  def named = page.scan(/`cases (\w+) ([\d.]+)`/).uniq

  def test_every_section_of_cases_that_is_named_exists
    assert_empty named - CASES
  end

  def test_no_section_of_cases_is_left_out
    assert_empty CASES - named - [%w[generic 1], %w[9110 10.1.1]]
  end

  def test_the_cases_are_those_of_h2spec_and_ours
    kinds = Http2Cases.all.map { |the| the.id[/\A\w+/] }.tally
    assert_equal [44, 95, 8], kinds.values_at("generic", "9113", "7541")
    assert_equal Http2Cases.all.size, Http2Cases.all.map { |the| the.id[/\A\S+/] }.uniq.size
  end

  # Each section of the RFC that asks something of a server has a row, in the order of the RFC.
  def test_rows_are_in_their_order
    page.scan(/^## RFC \d+\n(.*?)(?=^## |\z)/m).flatten.each do |table|
      sections = table.scan(/^\| (\d[\d., ]*) \|/).flatten.map { |row| row[/[\d.]+/].split(".").map(&:to_i) }
      assert_equal sections.sort, sections
    end
  end

  def test_no_test_of_flow_control_and_floods_goes_unmentioned
    assert_empty unmentioned(%w[c/http2/flow c/http2/guard c/http2/limits http2/cases])
  end
end
