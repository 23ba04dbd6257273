# frozen_string_literal: true

# also: modes portable

require "test_helper"
require "support/http2_cases"
require "support/server_case"

# Plays every case of test/cases/http2.txt over sockets, in each segmentation.
class Http2CasesTest < Minitest::Test
  include ServerCase

  def test_every_case_whole = assert_cases(:whole)
  def test_every_case_byte_by_byte = assert_cases(:bytes)
  def test_every_case_in_sevens = assert_cases(:sevens)
  def test_every_case_line_by_line = assert_cases(:lines)

  private

  def assert_cases(segmentation)
    port = serve(Http2Cases::APP).server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true)
    assert_empty Http2Cases.failures(port, segmentation)
  end
end
