# frozen_string_literal: true

require "test_helper"
require "support/cut_socket"
require "support/http1_cases"
require "support/http2_cases"
require "support/tls_case"

# The cases of test/cases/http2.txt over TLS: segments as records, and records as segments of TCP.
class TLSHttp2CasesTest < Minitest::Test
  include TLSCase

  def test_every_case_whole = assert_cases(:whole)
  def test_every_case_in_records_of_a_byte = assert_cases(:bytes)
  def test_every_case_in_records_of_seven = assert_cases(:sevens)
  def test_every_case_line_by_line = assert_cases(:lines)
  def test_every_case_in_segments_of_seven = assert_cases(:lines, cut: 7)
  def test_every_case_in_segments_of_a_byte = assert_cases(:whole, cut: 1)

  private

  # cut: bytes of a segment of TCP
  def assert_cases(segmentation, cut: nil)
    _, port = serve_tls(Http2Cases::APP)
    through = lambda do |socket|
      socket = CutSocket.over(socket, cut) if cut
      TLSClient::Secure.over(socket, alpn: ["h2"])
    end
    assert_empty Http2Cases.failures(port, segmentation, through: through)
  end
end

# Those of test/cases/http1.jsonl.
class TLSHttp1CasesTest < Minitest::Test
  include TLSCase
  include Http1Cases

  # What ends its side: with close_notify, or by TCP alone.
  class Ending < TLSClient::Secure
    def close_write = end_write
  end

  def setup
    super
    _, @port = serve_tls(Cases::App.new, **PATIENT)
    @kind = Ending
  end

  def test_whole
    play("whole") { |bytes| [Cases::Segmentation.whole(bytes)] }
  end

  def test_whole_without_a_last_word
    @kind = TLSClient::Secure
    play("whole", cases: Cases.all.select(&:half_close?)) { |bytes| [Cases::Segmentation.whole(bytes)] }
  end

  def test_records_of_a_byte
    play("bytes") { |bytes| [Cases::Segmentation.bytes(bytes)] }
  end

  def test_random_records
    play("random") { |bytes| [Cases::Segmentation.random(bytes, 5)] }
  end

  def test_second_request_on_a_connection
    play("second", before: GET) { |bytes| [Cases::Segmentation.whole(bytes)] }
  end

  private

  def connect_case
    socket = Socket.tcp("127.0.0.1", @port)
    socket.setsockopt(:TCP, :NODELAY, 1)
    @kind.over(socket, alpn: ["http/1.1"])
  end
end
