# frozen_string_literal: true

require "test_helper"
require "support/page_of_tests"

# docs/tls_conformance.md names tests for each requirement: they exist, and no test of what clients may do to the room
# tls goes unmentioned.
class TLSConformanceTest < Minitest::Test
  include PageOfTests

  PAGE = "tls_conformance.md"
  LEAST = 60

  def test_no_test_of_names_protocols_and_certificates_goes_unmentioned
    assert_empty unmentioned(%w[c/tls/alpn c/tls/sni c/tls/verify tls/ends])
  end

  # In the order of the RFC.
  def test_rows_are_in_their_order
    sections = page[/^## RFC 8446\n(.*?)(?=^## )/m, 1].scan(/^\| (\d[\d.]*)/).flatten
    sections = sections.map { |section| section.split(".").map(&:to_i) }
    assert_operator sections.size, :>, 15
    assert_equal sections.sort, sections
  end
end
