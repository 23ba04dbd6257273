# frozen_string_literal: true

require "test_helper"
require "support/http2_client"
require "support/server_case"

# How a connection of HTTP/2 ends that the server does not want any more: in two steps, so that what is on its way when
# the client hears of it is served (RFC 9113 6.8).
class Http2EndTest < Minitest::Test
  include ServerCase

  APP = lambda do |env|
    sleep Float(env["QUERY_STRING"]) unless env["QUERY_STRING"].empty?
    [200, { "content-type" => "text/plain" }, ["Hello"]]
  end
  GET = "headers $ es,eh :get"
  SLOW = "headers $ es,eh 8287 0405'/?0.3' 0106'a.test'"
  LAST = (2**31) - 1

  def setup
    super
    @open = []
  end

  def teardown
    @open.each(&:close)
    super
  end

  def client_of(running, **limits)
    port = running.server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true, limits: limits)
    Http2Client.new(port).tap { |client| @open << client }
  end

  # The streams up to which the GOAWAYs count, in order.
  def ends(client) = client.of("goaway").map { |frame| frame.payload.unpack1("N") }

  def get(client, stream, words = GET)
    client.send_words(words, stream: stream)
    client.read_until { client.complete?(stream) }
    client.status(stream)
  end

  def test_http2_max_requests
    client = client_of(serve(APP), http2_max_requests: 3)
    assert_equal [200, 200], [1, 3].map { |stream| get(client, stream) }
    assert_empty client.of("goaway")
    assert_equal 200, get(client, 5)
    client.read_until { client.of("goaway").any? }
    assert_equal 200, get(client, 7), "it was on its way"
    client.read_until { client.ended? }
    assert_equal [LAST, 7], ends(client)
    assert_equal "NO_ERROR", client.goaway
  end

  def test_http2_max_age
    client = client_of(serve(APP), http2_max_age: 1)
    assert_equal 200, get(client, 1)
    client.read_until { client.of("goaway").any? }
    assert_equal 200, get(client, 3)
    client.read_until { client.ended? }
    assert_equal [LAST, 3], ends(client)
  end

  def test_no_request_for_persistent_timeout
    client = client_of(serve(APP), persistent_timeout: 1)
    assert_equal 200, get(client, 1)
    client.read_until { client.ended? }
    assert_equal "NO_ERROR", client.goaway
  end

  def test_a_stop_serves_what_has_come
    running = serve(APP)
    client = client_of(running)
    client.send_words(SLOW, stream: 1)
    client.send_words("ping 0 - 0000000000000001")
    client.read_until { client.pong?("0000000000000001") }
    running.server.stop
    client.read_until { client.ended? }
    assert_equal 200, client.status(1)
    assert_equal "Hello", client.body(1)
    assert_equal LAST, ends(client).first
  end
end
