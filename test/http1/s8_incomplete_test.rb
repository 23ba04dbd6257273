# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 8, Handling Incomplete Messages: none is taken for a whole one.
class Http1S8IncompleteTest < Minitest::Test
  include ServerCase

  def test_8_a_request_that_ends_in_its_head_is_not_answered
    called = 0
    running = serve { |_env| [200, { "content-type" => "text/plain" }, [(called += 1).to_s]] }
    client = connect(running)
    client.write("GET / HTTP/1.1\r\nHost: a.te").half_close
    assert client.closed?
    assert_equal 0, called
  end

  def test_8_a_body_that_ends_early_does_not_look_whole
    ["Content-Length: 9\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
     "Transfer-Encoding: chunked\r\n\r\n0\r\n"].each do |rest|
      whole = Queue.new
      running = serve(lint: false) do |env|
        whole << env["rack.input"].read
        [200, { "content-type" => "text/plain" }, []]
      end
      client = connect(running)
      client.write("POST / HTTP/1.1\r\nHost: a.test\r\n#{rest}").half_close
      bytes = client.drain
      refute_match(%r{\AHTTP/1\.1 200}, bytes)
      assert_empty whole
    end
  end

  # Content-Length promises more, or the last chunk is missing: the client can tell.
  def test_8_a_response_that_ends_early_can_be_told
    [{ "content-length" => "9" }, {}].each do |headers|
      body = Enumerator.new do |out|
        out << "abc"
        raise "in the middle"
      end
      running = serve(lint: false) { [200, { "content-type" => "text/plain" }.merge(headers), body] }
      client = connect(running)
      error = assert_raises(Wire::Malformed, Errno::ECONNRESET) { client.call(GET) }
      assert_match(/bytes|chunked|reset/, error.message)
    end
  end
end
