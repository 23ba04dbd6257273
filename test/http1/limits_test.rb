# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Each limit at one below, at, and one above the value that the user set (RFC 9112 3, RFC 6585 5).
class Http1LimitsTest < Minitest::Test
  include ServerCase

  READ = lambda do |env|
    [200, { "content-type" => "text/plain" }, [env["rack.input"]&.read.to_s.bytesize.to_s]]
  end
  CHUNKED = { "Transfer-Encoding" => "chunked" }.freeze

  # name of the limit => [its value, status beyond it, bytes of a request with a unit of n]
  TABLE = {
    max_request_line: [1_000, 414, ->(test, n) { test.request("GET", "/#{'a' * (n - "GET / HTTP/1.1".size)}") }],
    max_header_line: [1_000, 431, ->(test, n) { test.request("GET", "/", "X" => "v" * (n - "X: ".size)) }],
    max_header_count: [20, 431, ->(test, n) { test.request("GET", "/", Array.new(n - 1) { |nth| ["X-#{nth}", "v"] }) }],
    max_head_size: [5_000, 431, ->(test, n) { test.sized_head(n) }],
    max_trailer_count: [5, 431, ->(test, n) { test.with_trailers(Array.new(n) { |nth| "X-#{nth}: v\r\n" }.join) }],
    max_trailer_size: [1_000, 431, ->(test, n) { test.with_trailers("X: #{'v' * (n - "X: \r\n".size)}\r\n") }],
    max_chunk_line: [100, 400, ->(test, n) { test.with_chunk_line("5;e=#{'v' * (n - "5;e=".size)}") }],
    max_chunk_extensions: [150, 400, ->(test, n) { test.with_chunk_line("5;e=#{'v' * (n - ";e=".size)}") }],
    max_chunk_overhead: [100, 400, ->(test, n) { test.with_overhead(n) }],
    max_body_size: [10, 413, ->(test, n) { test.request("POST", body: "x" * n) }]
  }.freeze

  TABLE.each do |name, (value, status, build)|
    define_method("test_#{name}") do
      running = serve(READ, name => value)
      [[value - 1, 200], [value, 200], [value + 1, status]].each do |size, expected|
        assert_equal expected, ask(running, build.call(self, size)).status, "#{name} #{value}, unit of #{size}"
      end
    end

    define_method("test_#{name}_closes_the_connection") do
      client = connect(serve(READ, name => value))
      assert client.call(build.call(self, value + 1)).close?
      assert client.closed?
    end
  end

  def test_max_body_size_of_chunks
    running = serve(READ, max_body_size: 10)
    { 9 => 200, 10 => 200, 11 => 413 }.each do |size, status|
      bytes = request("POST", "/", CHUNKED) + chunked("x" * (size - 1), "x")
      assert_equal status, ask(running, bytes).status, "chunks of #{size} bytes"
    end
  end

  # The body need not come for that.
  def test_max_body_size_is_answered_before_the_body
    client = connect(serve(READ, max_body_size: 10))
    assert_equal 413, client.call(request("POST", "/", "Content-Length" => "11")).status
    assert client.closed?
  end

  def test_max_requests_per_connection
    client = connect(serve(max_requests_per_connection: 3))
    assert_equal [false, false, true], Array.new(3) { client.call(GET).close? }
    assert client.closed?
  end

  # All extensions of a body count together.
  def test_max_chunk_extensions_of_a_body
    running = serve(READ, max_chunk_extensions: 2_000)
    extension = ";e=#{'v' * 97}"
    { 19 => 200, 21 => 400 }.each do |chunks, status|
      body = "#{"1#{extension}\r\nx\r\n" * chunks}0\r\n\r\n"
      assert_equal status, ask(running, request("POST", "/", CHUNKED) + body).status, "#{chunks} extensions"
    end
  end

  # The limit fires without the delimiter that the server waits for.
  def test_limits_without_an_end_in_sight
    running = serve(READ, max_request_line: 1_000, max_header_line: 1_000)
    assert_equal 414, ask(running, "GET /#{'a' * 1_100}").status
    assert_equal 431, ask(running, "GET / HTTP/1.1\r\nHost: a.test\r\nX: #{'v' * 1_100}").status
    assert_equal 400, ask(running, "#{request('POST', '/', CHUNKED)}5;#{'e' * 300}").status
  end

  # A larger limit than the default is honoured as well.
  def test_a_head_of_half_a_megabyte_when_the_limits_allow_it
    running = serve(READ, max_header_line: 600_000, max_head_size: 700_000, max_header_count: 2_000)
    assert_equal 200, ask(running, request("GET", "/", "X" => "v" * 500_000)).status
    assert_equal 200, ask(running, request("GET", "/", Array.new(1_999) { |nth| ["X-#{nth}", "v" * 200] })).status
  end

  def test_a_long_head_in_small_pieces
    running = serve(->(env) { [200, { "content-type" => "text/plain" }, [env["HTTP_X_LAST"]]] })
    bytes = request("GET", "/", Array.new(100) { |nth| ["X-#{nth}", "v" * 500] } << %w[X-Last seen])
    client = connect(running)
    bytes.scan(/.{1,1000}/mn) do |piece|
      client.write(piece)
      sleep 0.0005
    end
    assert_equal "seen", client.read.body
  end

  # [limits] => [SO_KEEPALIVE, TCP_USER_TIMEOUT in milliseconds] of an accepted socket. A peer that has time to
  # read has time to answer, so write_timeout is the least.
  DEAD_PEERS = {
    {} => [1, 120_000], { dead_peer_timeout: 40 } => [1, 40_000], { dead_peer_timeout: 0 } => [0, 0],
    { dead_peer_timeout: 40, write_timeout: 90 } => [1, 90_000]
  }.freeze

  def test_dead_peer_timeout
    DEAD_PEERS.each do |limits, expected|
      running = serve(**limits)
      client = connect(running)
      assert client.usable?
      socket = accepted(client)
      probed, given_up = expected
      given_up = 0 unless Abaca::Platform.here.has?(:user_timeout)
      assert_equal [probed, given_up], [socket.getsockopt(:SOCKET, :KEEPALIVE).int,
                                        socket.getsockopt(:TCP, Socket::TCP_USER_TIMEOUT).int], limits.inspect
    end
  end

  # Limits of a listener are those of its connections alone.
  def test_a_listener_has_limits_of_its_own
    running = serve(READ, max_body_size: 20)
    limits = { max_body_size: 10, max_requests_per_connection: 1 }
    narrow = running.server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, limits: limits)
    { running.port => [200, 200, 413], narrow => [200, 413, 413] }.each do |port, statuses|
      assert_equal statuses, [10, 11, 21].map { |size| ask_port(port, request("POST", body: "x" * size)).status }
    end
    assert ask_port(narrow, GET).close?
    refute ask_port(running.port, GET).close?
  end

  def test_unfit_limits_of_a_listener_are_refused
    server = Abaca::Server.new(HELLO)
    { { max_bdy_size: 1 } => /no limit is named `max_bdy_size' \(did you mean `max_body_size'/,
      { header_timeout: 0 } => /header_timeout: 0 seconds is out of range/,
      { header_timeout: "soon" } => /a whole number of seconds/ }.each do |limits, message|
      assert_match message, assert_raises(Abaca::ConfigError) {
        server.add_tcp_listener("127.0.0.1", 0, limits: limits)
      }.message
    end
  ensure
    server&.close
  end

  # None of them is lost on its way to where it is enforced.
  def test_every_limit_reaches_the_engine
    names = Abaca::Config::LIMITS.keys
    values = names.each_with_index.to_h { |name, nth| [name, 1_000 + nth] }
    server = Abaca::Server.new(HELLO, values)
    assert_equal values, server.instance_variable_get(:@engine).limits
  ensure
    server&.close
  end

  # Each limit is somebody's case.
  def test_every_limit_has_a_test
    texts = Dir[File.expand_path("../**/*_test.{rb,c}", __dir__)].map { |path| File.read(path) }.join
    assert_empty(Abaca::Config::LIMITS.keys.reject { |name| texts.match?(/\b#{name}\b/) })
  end

  def test_unknown_and_unfit_options_are_refused
    { no_such_option: 1, header_timeout: "soon", max_body_size: -1 }.each do |name, value|
      error = assert_raises(ArgumentError, TypeError, RangeError, Abaca::Error) do
        Abaca::Server.new(HELLO, name => value)
      end
      assert_includes error.message, name.to_s
    end
  end

  # The server's end of a connection, which is in this process.
  def accepted(client)
    ServerCase.descriptors.each_key do |fd|
      socket = Socket.for_fd(fd).tap { |found| found.autoclose = false }
      return socket if socket.remote_address.ip_port == client.socket.local_address.ip_port
    rescue SystemCallError, SocketError
      next # no socket, or one without a peer
    end
    flunk "no socket of the server's"
  end

  def ask_port(port, bytes)
    client = Wire::Client.new(port)
    client.call(bytes)
  ensure
    client&.close
  end

  # A GET request whose head has `size` bytes.
  def sized_head(size)
    fields = Array.new(5) { |nth| ["X-#{nth}", "v" * 800] }
    rest = size - request("GET", "/", fields + [["Y", ""]]).bytesize
    request("GET", "/", fields + [["Y", "v" * rest]])
  end

  def with_trailers(trailers)
    "#{request('POST', '/', CHUNKED)}1\r\nx\r\n0\r\n#{trailers}\r\n"
  end

  def with_chunk_line(line)
    "#{request('POST', '/', CHUNKED)}#{line}\r\nhello\r\n0\r\n\r\n"
  end

  # Framing of `size` bytes and next to no data; a fixed part of it is the last chunk.
  def with_overhead(size)
    line = "1;e=#{'v' * 20}"
    chunks = (size - "0\r\n".size) / (line.size + "\r\n\r\n".size)
    rest = size - (chunks * (line.size + "\r\n\r\n".size)) - "0\r\n".size
    "#{request('POST', '/', CHUNKED)}#{"#{line}\r\nx\r\n" * chunks}#{'0' * (rest + 1)}\r\n\r\n"
  end
end
