# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 6, Message Body: where a body ends.
class Http1S6FramingTest < Minitest::Test
  include ServerCase

  READ = ->(env) { [200, { "content-type" => "text/plain" }, [env["rack.input"]&.read.to_s]] }
  CODED = { "Transfer-Encoding" => "chunked" }.freeze

  # A body whose length only its end tells.
  class Unknown
    def each = yield("bytes")
  end

  def give(status, headers = {}, body = ["bytes"], lint: false)
    serve(lint:) { [status, { "content-type" => "text/plain" }.merge(headers), body] }
  end

  def test_6_1_content_length_with_a_coding_is_refused
    assert_refused 400, request("POST", "/", CODED.merge("Content-Length" => "5"), version: "1.1") << chunked("abc")
    assert_refused 400, request("POST", "/", { "Content-Length" => "5" }.merge(CODED)) << chunked("abc")
  end

  def test_6_1_a_coding_in_1_0_is_refused
    assert_refused 400, request("POST", "/", CODED, version: "1.0") << chunked("abc")
  end

  def test_6_1_codings_other_than_chunked_are_not_implemented
    ["gzip, chunked", "xchunked", "identity"].each do |coding|
      refused = ask(serve, request("POST", "/", "Transfer-Encoding" => coding) << chunked("abc"))
      assert_includes [400, 501], refused.status, coding
      assert refused.close?
    end
  end

  def test_6_1_no_coding_is_sent_to_1_0
    response = ask(give(200, {}, Unknown.new), request("GET", version: "1.0"))
    assert_equal [:close, nil, "bytes"], [response.framing, response["transfer-encoding"], response.body]
  end

  def test_6_2_content_length_is_the_number_of_bytes
    assert_equal "6", ask(give(200, {}, ["öcté"]))["content-length"]
    assert_equal "abcde", ask(serve(READ), request("POST", body: "abcde")).body
  end

  def test_6_2_a_content_length_that_is_none_is_refused
    ["+5", "-5", "0x5", "5 5", "5,5", "", "18446744073709551621", "5.0"].each do |length|
      assert_refused 400, request("POST", "/", "Content-Length" => length) << "abcde"
    end
  end

  def test_6_3_a_repeated_content_length_is_refused
    assert_refused 400, request("POST", "/", [%w[Content-Length 5], %w[Content-Length 5]]) << "abcde"
  end

  def test_6_3_neither_head_nor_204_nor_304_has_a_body
    head = ask(give(200, {}, Unknown.new), request("HEAD"))
    assert_equal ["", :none], [head.body, head.framing]
    [204, 304].each do |status|
      client = connect(give(status))
      2.times { assert_equal [status, ""], client.call(GET).then { |response| [response.status, response.body] } }
    end
  end

  def test_6_3_a_request_without_length_and_coding_has_no_body
    client = connect(serve(READ))
    assert_equal "", client.call(request("POST")).body
    assert_equal "", client.call(request("GET")).body
  end

  def test_6_3_a_response_of_unknown_length_is_chunked
    response = ask(give(200, {}, Unknown.new))
    assert_equal [:chunked, "bytes"], [response.framing, response.body]
  end
end
