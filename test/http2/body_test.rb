# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/http2_client"
require "support/server_case"

# Bodies over HTTP/2 as an app sees them: their length, their end, and trailers in both directions.
class Http2BodyTest < Minitest::Test
  include ServerCase

  TYPE = { "content-type" => "text/plain" }.freeze
  POST = "headers $ eh :post"
  # Answers with the body, its end and the trailers.
  ECHO = lambda do |env|
    input = env["rack.input"]
    [200, TYPE.dup, [[input.read, input.eof?, env["abaca.trailers"].to_a].inspect]]
  end
  KEPT = '["abc", true, [["x-t", "1"]]]'

  def setup
    super
    @open = []
  end

  def teardown
    @open.each(&:close)
    super
  end

  def client_of(app)
    port = serve(app, lint: false).server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true)
    Http2Client.new(port).tap { |client| @open << client }
  end

  # What the app answers to the request that these frames are.
  def body_of(frames, app = ECHO)
    client = client_of(app)
    client.send_words(frames, stream: 1)
    client.read_until { client.complete?(1) }.body(1)
  end

  def test_trailers_of_a_request
    assert_equal KEPT, body_of("#{POST} data $ - 'abc' headers $ es,eh :trailer")
  end

  # All of the content is here before them.
  def test_trailers_behind_a_declared_length
    assert_equal KEPT, body_of("headers $ eh :post3 data $ - 'abc' headers $ es,eh :trailer")
  end

  def test_trailers_that_come_late
    client = client_of(ECHO)
    client.send_words("headers $ eh :post3 data $ - 'abc'", stream: 1)
    client.send_words("ping 0 - 0000000000000001")
    client.read_until { client.pong?("0000000000000001") }
    client.send_words("headers $ es,eh :trailer", stream: 1)
    assert_equal KEPT, client.read_until { client.complete?(1) }.body(1)
  end

  def test_empty_bodies
    [POST, "headers $ eh 8387840106'a.test'0f0d01'0'"].each do |head|
      assert_equal '["", true, []]', body_of("#{head} data $ es")
    end
  end

  # The app asks before the end has come, and again behind it.
  def test_size
    asked = Queue.new
    app = lambda do |env|
      before = env["rack.input"].size
      asked << before
      env["rack.input"].read
      [200, TYPE.dup, [[before, env["rack.input"].size].inspect]]
    end
    client = client_of(app)
    client.send_words("#{POST}#{" data $ - 61*16000" * 4}", stream: 1)
    client.read_until { client.of("window_update", 1).any? }
    client.send_words("data $ - 61*1600", stream: 1) # that is more than is buffered
    assert_nil asked.pop
    client.send_words("data $ es", stream: 1)
    assert_equal "[nil, 65600]", client.read_until { client.complete?(1) }.body(1)
  end

  # Its client may wait for an answer before it sends more.
  def test_a_call_of_grpc_comes_to_the_app_with_its_head
    client = client_of(->(env) { [200, TYPE.dup, Enumerator.new { |out| out << "here" << env["rack.input"].read }] })
    client.send_words("#{POST} 5f12'application/grpc+x'", stream: 1)
    client.read_until { client.body(1) == "here" }
    client.send_words("data $ es 'more'", stream: 1)
    assert_equal "heremore", client.read_until { client.complete?(1) }.body(1)
  end

  # A status of gRPC without messages: one block of fields, which ends the stream.
  def test_fields_without_content
    client = client_of(->(_) { [200, { "content-type" => "application/grpc", "grpc-status" => "12" }, []] })
    client.send_words("headers $ es,eh :get", stream: 1)
    client.read_until { client.complete?(1) }
    assert_equal [true], client.of("headers", 1).map { |frame| frame.flag?("es") }
    assert_empty client.of("data", 1)
  end

  def test_trailers_of_a_response_without_content
    [[], [""]].each do |body|
      client = client_of(->(_) { [200, TYPE.merge("abaca.trailers" => { "grpc-status" => "0" }), body] })
      client.send_words("headers $ es,eh :get", stream: 1)
      client.read_until { client.complete?(1) }
      assert_equal [false, true], client.of("headers", 1).map { |frame| frame.flag?("es") }
    end
  end
end
