# frozen_string_literal: true

require "test_helper"
require "support/page_of_tests"
require "json"

# docs/conformance.md names tests for each requirement: they exist, no section is left out, and no test
# that carries a section goes unmentioned.
class ConformanceTest < Minitest::Test
  include PageOfTests

  PAGE = "conformance.md"
  SECTIONS = {
    "RFC 9112" => %w[2.1 2.2 2.3 3 3.1 3.2 3.2.1 3.2.2 3.2.3 3.2.4 3.3 4 5 5.1 5.2 6 6.1 6.2 6.3 7.1 7.1.1 7.1.2 7.1.3
                     7.2 7.3 7.4 8 9.1 9.2 9.3 9.3.1 9.3.2 9.4 9.5 9.6 9.7 9.8 10 11.1 11.2 11.3 11.4],
    "Rack" => (1..7).map(&:to_s)
  }.freeze

  def test_every_section_of_cases_exists
    known = File.foreach(File.join(TESTS, "cases/http1.jsonl")).flat_map { |line| JSON.parse(line).fetch("rfc") }.uniq
    named = page.scan(/`cases (\d+ [\dC.]+)`/).flatten
    assert_empty named - known
    assert_empty known.grep(/\A9112 /) - named, "sections of cases that the page does not name"
  end

  def test_no_section_is_left_out
    SECTIONS.each do |title, sections|
      rows = page[/^## #{title}\n(.*?)(?=^## |\z)/m, 1].scan(/^\| ([^|]+) \|/).flatten
      listed = rows.flat_map { |row| row.split(", ") }.filter_map { |row| row[/\A[\d.]+\d|\A\d+/] }
      assert_empty sections - listed, title
      assert_equal listed, listed.sort_by { |section| section.split(".").map(&:to_i) }, "#{title} in its order"
    end
  end

  def test_no_test_of_a_section_goes_unmentioned
    files = Dir[File.join(TESTS, "http1/s[0-9]*_test.rb")].map { |path| "http1/#{File.basename(path, '_test.rb')}" }
    assert_empty unmentioned([*files, "rack/spec"])
  end

  # The name of a test in s6_*_test.rb starts with a section of 6, or says which other one it is about.
  def test_names_carry_sections
    Dir[File.join(TESTS, "http1/s[0-9]*_test.rb")].each do |path|
      names_in("http1/#{File.basename(path, '_test.rb')}").each { |name| assert_match(/\A(rfc9110_)?\d+_/, name, path) }
    end
  end
end
