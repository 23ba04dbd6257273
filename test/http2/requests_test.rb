# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/http2_client"
require "support/server_case"

# What holds for a request holds for one that is a stream of HTTP/2: its environment, the kinds of responses, limits,
# deadlines, and clients that give up. In every mode.
class Http2RequestsTest < Minitest::Test
  include ServerCase

  POST = "headers $ eh :post"
  # All that is ever sent at once may come.
  WIDE = "preface settings 0 - 0001 00000000 0004 7fffffff window_update 0 - 7fff0000"
  LARGE = 200_000

  def setup
    super
    @open = []
  end

  def teardown
    @open.each(&:close)
    super
  end

  # A client of a server with the app; terms: of its listener.
  def client_of(app = nil, before: WIDE, terms: {}, **options, &block)
    @server = serve(app || block, lint: false, **options)
    port = @server.server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true, limits: terms)
    Http2Client.new(port, before: before).tap { |client| @open << client }
  end

  # The frames of a GET; fields: more of it.
  def get(path = "/", **fields)
    more = fields.map { |name, value| literal(name, value) }
    "headers $ es,eh 828704#{sized(path)}0106'a.test' #{more.join(" ")}"
  end

  def literal(name, value) = "00#{sized(name.to_s)}#{sized(value)}"
  def sized(text) = "#{format("%02x", text.bytesize)}'#{text}'"

  # The body that the request in these words gets.
  def body_of(client, words, stream: 1)
    client.send_words(words, stream: stream)
    client.read_until { client.complete?(stream) || client.reset(stream) }
    client.body(stream)
  end

  # The server has read all that was sent so far.
  def settle(client)
    @pings = (@pings || 0) + 1
    client.send_words("ping 0 - #{format("%016x", @pings)}")
    client.read_until { client.pong?(format("%016x", @pings)) }
  end

  # --- the environment ---

  def test_environment
    keys = %w[SERVER_PROTOCOL rack.url_scheme rack.hijack? HTTP_COOKIE HTTP_HOST REQUEST_METHOD PATH_INFO QUERY_STRING]
    client = client_of { |env| [200, TYPE.dup, [env.values_at(*keys, "rack.hijack").inspect]] }
    # What it says of the scheme is not trusted.
    words = "headers $ es,eh 82#{literal(":scheme", "https")}04#{sized("/a?b=c")}0106'a.test'" \
            "#{literal("cookie", "a=1")}#{literal("cookie", "b=2")}"
    expected = ["HTTP/2", "http", nil, "a=1; b=2", "a.test", "GET", "/a", "b=c", nil]
    assert_equal expected.inspect, body_of(client, words)
  end

  # --- kinds of responses ---

  # A body that must not be read, but closed.
  Unread = Struct.new(:closed) do
    def each = raise("it is read")
    def close = closed << true
  end

  def test_responses_without_content
    closed = Queue.new
    body = Unread.new(closed)
    client = client_of do |env|
      status = Integer(env["PATH_INFO"].delete_prefix("/"))
      [status, status == 200 ? { "content-length" => "5" } : {}, body]
    end
    head = "headers $ es,eh 0204'HEAD'8704#{sized("/200")}0106'a.test'"
    [1, 3, 5].zip([head, get("/204"), get("/304")]) do |stream, words|
      body_of(client, words, stream: stream)
      assert_equal [true], client.of("headers", stream).map { |frame| frame.flag?("es") }
      assert_empty client.of("data", stream)
      assert closed.pop
    end
  end

  def test_status_101_does_not_exist
    client = client_of { [101, { "upgrade" => "x", "connection" => "upgrade" }, :close.to_proc] }
    body_of(client, get)
    assert_equal 500, client.status(1)
    assert @server.logged?(/101/)
  end

  def test_errors_before_and_behind_the_head
    pieces = Enumerator.new do |out|
      out << "begun"
      sleep 0.2 # meanwhile it leaves
      raise "broken"
    end
    client = client_of { |env| env["PATH_INFO"] == "/late" ? [200, TYPE.dup, pieces] : raise("early") }
    body_of(client, get("/early"))
    assert_equal [500, nil], [client.status(1), client.reset(1)]
    body_of(client, get("/late"), stream: 3)
    assert_equal [200, "INTERNAL_ERROR"], [client.status(3), client.reset(3)]
  end

  def test_a_tunnel
    talk = lambda do |stream|
      while (piece = stream.readpartial(100)) != "end"
        stream.write(piece.upcase)
      end
      stream.close
    rescue EOFError
      stream.close
    end
    client = client_of { |env| [200, { "rack.protocol" => env["rack.protocol"].first }, talk] }
    client.send_words("headers $ eh 0207'CONNECT'8784#{literal(":protocol", "echo")}0106'a.test'", stream: 1)
    client.read_until { client.status(1) }
    %w[one two].each do |word|
      client.send_words("data $ - '#{word}'", stream: 1)
      client.read_until { client.body(1).end_with?(word.upcase) }
    end
    client.send_words("data $ - 'end'", stream: 1)
    client.read_until { client.complete?(1) }
    assert_equal "ONETWO", client.body(1)
  end

  # --- priorities (RFC 9218) ---

  # The streams of the DATA frames, in their order; the client opens its windows when all heads are there.
  def content_of(*requests, between: nil)
    client = client_of(before: "preface settings 0 - 0001 00000000 0004 00000000") do
      [200, TYPE.dup, ["x" * LARGE]]
    end
    streams = requests.each_index.map { |nth| (2 * nth) + 1 }
    streams.zip(requests) { |stream, words| client.send_words(words, stream: stream) }
    client.read_until { streams.all? { |stream| client.status(stream) } }
    client.send_words(between) if between
    client.send_words("window_update 0 - 7fff0000 settings 0 - 0004 7fffffff")
    client.read_until { streams.all? { |stream| client.complete?(stream) } }
    client.frames.select { |frame| frame.is?("data") }
  end

  # The order in which they come to their ends.
  def ends_of(...) = content_of(...).select { |frame| frame.flag?("es") }.map(&:stream)

  def test_urgent_responses_go_first
    assert_equal [3, 5, 1], ends_of(get(priority: "u=6"), get(priority: "u=1"), get)
  end

  def test_a_priority_may_change
    urgent = "priority_update 0 - 00000005 'u=0'"
    assert_equal [5, 1, 3], ends_of(get(priority: "u=2"), get(priority: "u=4"), get(priority: "u=5"), between: urgent)
  end

  def test_incremental_responses_take_turns
    first, second = content_of(get(priority: "i"), get(priority: "i")).map(&:stream).each_slice(4).first(2)
    assert_equal [[1, 3]] * 2, [first.uniq.sort, second.uniq.sort]
    assert_equal [1], content_of(get, get).map(&:stream).first(8).uniq
  end

  # --- limits ---

  def test_a_body_that_is_too_long_is_refused_before_its_end
    client = client_of(terms: { max_body_size: 10 }) { [200, TYPE.dup, []] }
    body_of(client, "headers $ eh 8387840106'a.test'0f0d02'11'")
    client.read_until { client.reset(1) }
    assert_equal [413, "NO_ERROR"], [client.status(1), client.reset(1)]
    kinds = client.frames.select { |frame| frame.stream == 1 }.map { |frame| Http2Frames::TYPES[frame.type] }
    assert_equal %w[headers data rst_stream], kinds.uniq
    assert_equal 200, client.tap { body_of(client, get, stream: 3) }.status(3)
  end

  def test_no_place_for_more
    gate = Queue.new
    client = client_of(**ServerCase.places(1), max_queue: 0) do
      gate.pop
      [200, TYPE.dup, ["served"]]
    end
    client.send_words(get, stream: 1)
    assert eventually { @server.server.stats[:in_app] == 1 }
    client.send_words(get, stream: 3)
    client.read_until { client.complete?(3) }
    assert_equal 503, client.status(3)
    gate << true
    client.read_until { client.complete?(1) }
    assert_equal 200, client.status(1)
  end

  # A stream that was reset counts until the app has finished with it.
  def test_max_streams
    gate = Queue.new
    client = client_of(terms: { max_streams: 2 }) do |env|
      gate.pop if env["PATH_INFO"] == "/wait"
      [200, TYPE.dup, ["served"]]
    end
    [1, 3].each { |stream| client.send_words(get("/wait"), stream: stream) }
    assert eventually { @server.server.stats[:in_app] == 2 }
    [1, 3].each { |stream| client.send_words("rst_stream #{stream} - 00000008") }
    client.send_words(get, stream: 5)
    client.read_until { client.reset(5) }
    assert_equal "REFUSED_STREAM", client.reset(5)
    2.times { gate << true }
    assert eventually { @server.server.stats[:in_app].zero? }
    assert_equal "served", body_of(client, get, stream: 7)
  end

  def test_a_deadline
    client = client_of(request_timeout: 1) do |env|
      sleep 20 if env["PATH_INFO"] == "/wait"
      [200, TYPE.dup, ["served"]]
    end
    client.send_words(get("/wait"), stream: 1)
    assert_equal "served", body_of(client, get, stream: 3)
    client.read_until { client.complete?(1) }
    assert_equal 504, client.status(1)
  end

  def test_health_paths
    client = client_of(readiness: "/readyz") { [404, TYPE.dup, []] }
    body_of(client, get("/readyz"))
    assert_equal 200, client.status(1)
    assert_equal 0, @server.server.stats[:requests]
  end

  # --- clients that give up ---

  def test_a_reset_wakes_a_reader
    ended = Queue.new
    client = client_of(**STREAMED) do |env|
      env["rack.input"].read
    rescue Abaca::PeerError => e
      ended << e
      raise
    end
    client.send_words("#{POST} data $ - 'some'", stream: 1)
    assert eventually { in_phase(@server, :body) == 1 }
    client.send_words("rst_stream 1 - 00000008")
    assert_kind_of Abaca::PeerError, ended.pop
    assert eventually { @server.server.stats[:in_app].zero? }
  end

  def test_a_reset_wakes_a_writer
    ended = Queue.new
    write = lambda do |stream|
      loop { stream.write("x" * 100_000) }
    rescue StandardError => e
      ended << e
      stream.close
    end
    client = client_of(before: "preface settings 0 - 0001 00000000 0004 00000000") { [200, TYPE.dup, write] }
    client.send_words(get, stream: 1)
    client.read_until { client.status(1) }
    assert eventually { in_phase(@server, :drain) == 1 }
    client.send_words("rst_stream 1 - 00000008")
    assert_includes [Abaca::PeerError, IOError], ended.pop.class
    assert eventually { @server.server.stats[:in_app].zero? }
  end

  def test_a_reset_cancels_what_asked_for_it
    gone = Queue.new
    client = client_of(cancel_on_disconnect: true) do
      sleep 20
    rescue Abaca::ClientGone => e
      gone << e.class
      raise
    end
    client.send_words(get, stream: 1)
    assert eventually { @server.server.stats[:in_app] == 1 }
    client.send_words("rst_stream 1 - 00000008")
    assert_equal Abaca::ClientGone, gone.pop
  end
end
