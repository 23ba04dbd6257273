# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 7, Transfer Codings: the chunked one, which is the only one here.
class Http1S7ChunkedTest < Minitest::Test
  include ServerCase

  READ = ->(env) { [200, { "content-type" => "text/plain" }, [env["rack.input"].read]] }

  # The response to a chunked body that is spelt so.
  def send_chunks(bytes, running = serve(READ))
    ask(running, request("POST", "/", "Transfer-Encoding" => "chunked") << bytes)
  end

  def test_7_1_sizes_are_hexadecimal_of_either_case
    assert_equal "#{'x' * 26}abcdefghij", send_chunks("1a\r\n#{'x' * 26}\r\nA\r\nabcdefghij\r\n0\r\n\r\n").body
    assert_equal "abc", send_chunks("003\r\nabc\r\n000\r\n\r\n").body
  end

  def test_7_1_what_is_no_size_is_refused
    ["x\r\n", "-1\r\n", "0x1\r\n", " 1\r\n", "\r\n", "1g\r\n", "10000000000000000\r\n"].each do |bytes|
      assert_equal 400, send_chunks(bytes).status, bytes.inspect
    end
  end

  def test_7_1_data_ends_where_its_size_says
    ["3\r\nabcd\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nab\r\n0\r\n\r\n"].each do |bytes|
      assert_equal 400, send_chunks(bytes).status, bytes.inspect
    end
  end

  def test_7_1_1_extensions_are_ignored_when_they_are_well_formed
    assert_equal "abc", send_chunks("3;a;b=c;d=\"e;\\\"\"\r\nabc\r\n0;last\r\n\r\n").body
    ["3;\r\nabc\r\n", "3;a=\r\nabc\r\n", "3;a=\"\r\nabc\r\n", "3 \r\nabc\r\n"].each do |bytes|
      assert_equal 400, send_chunks(bytes).status, bytes.inspect
    end
  end

  def test_7_1_2_trailers_are_no_fields_of_the_request
    running = serve do |env|
      [200, { "content-type" => "text/plain" }, ["#{env['rack.input'].read} #{env['HTTP_X'].inspect}"]]
    end
    assert_equal "abc nil", send_chunks("3\r\nabc\r\n0\r\nX: v\r\nContent-Length: 9\r\n\r\n", running).body
  end

  def test_7_1_2_a_malformed_trailer_is_refused
    ["X : v\r\n\r\n", "X\r\n\r\n", "X: \x00\r\n\r\n", " X: v\r\n\r\n", "X: v\n\r\n"].each do |bytes|
      assert_equal 400, send_chunks("0\r\n#{bytes}").status, bytes.inspect
    end
  end

  def test_7_1_3_the_app_reads_the_data_alone
    assert_equal "abcdef", send_chunks(chunked("ab", "cde", "f")).body
  end

  # Neither compress nor gzip (7.2) is a coding of ours, and a repeated chunked (7.3) is an error.
  def test_7_2_and_7_3_other_codings_are_refused
    ["gzip", "compress, chunked", "chunked, chunked"].each do |coding|
      bytes = request("POST", "/", "Transfer-Encoding" => coding) << chunked("abc")
      assert_includes [400, 501], ask(serve, bytes).status, coding
    end
  end

  # TE is about responses, whose only coding is the one that every client understands.
  def test_7_4_te_changes_nothing
    body = Enumerator.new { |out| out << "bytes" }
    running = serve(lint: false) { [200, { "content-type" => "text/plain" }, body] }
    response = ask(running, request("GET", "/", "TE" => "gzip, trailers;q=0.5", "Connection" => "TE"))
    assert_equal [:chunked, "bytes"], [response.framing, response.body]
  end
end
