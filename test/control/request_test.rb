# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control"

# What the control server takes for a request.
class ControlRequestTest < Minitest::Test
  Request = Abaca::Control::Request

  def read(bytes)
    ours, theirs = UNIXSocket.pair
    theirs.write(bytes)
    theirs.close
    Request.read(ours)
  ensure
    ours.close
  end

  def assert_status(status, bytes)
    assert_equal status, assert_raises(Request::Invalid, bytes[0, 80].inspect) { read(bytes) }.status
  end

  def test_a_request
    request = read("GET /a/stats?x=1&token=a%20b;token=c HTTP/1.0\r\nHost: a\r\nX-Empty:\r\n\r\n")
    assert_equal ["GET", "/a/stats", "a", "", nil],
                 [request.verb, request.path, request["host"], request["x-empty"], request["accept"]]
    assert_equal ["a%20b", "a b", "c", "c"], request.parameters("token")
    assert_empty request.parameters("none")
    assert_equal "HEAD", read("HEAD / HTTP/1.1\r\n\r\n").verb
    assert_equal "POST", read("POST /gc HTTP/1.1\r\nContent-Length: 0\r\n\r\n").verb
    assert_nil read("")
  end

  def test_what_is_none
    ["PUT / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "\r\n\r\n",
     "GET http://a/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\r\n\r\n", "GET /\xff\0 HTTP/1.1\r\n\r\n",
     "GET / HTTP/1.1\r\n folded\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\nHost: \0\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "GET / HT"].each { |bytes| assert_status(400, bytes) }
  end

  def test_bodies_and_long_heads
    assert_status(413, "POST /gc HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
    assert_status(413, "POST /gc HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert_status(431, "GET / HTTP/1.1\r\nA: #{'a' * 20_000}\r\n\r\n")
  end
end
