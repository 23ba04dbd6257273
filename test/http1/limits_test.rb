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

  # name of the limit => [its value, status beyond it, octets of a request with a unit of n]
  TABLE = {
    max_request_line: [1_000, 414, ->(test, n) { test.request("GET", "/#{'a' * (n - "GET / HTTP/1.1".size)}") }],
    max_header_line: [1_000, 431, ->(test, n) { test.request("GET", "/", "X" => "v" * (n - "X: ".size)) }],
    max_header_count: [20, 431, ->(test, n) { test.request("GET", "/", Array.new(n - 1) { |nth| ["X-#{nth}", "v"] }) }],
    max_head_size: [5_000, 431, ->(test, n) { test.sized_head(n) }],
    max_trailer_count: [5, 431, ->(test, n) { test.with_trailers(Array.new(n) { |nth| "X-#{nth}: v\r\n" }.join) }],
    max_chunk_line: [100, 400, ->(test, n) { test.with_chunk_line("5;e=#{'v' * (n - "5;e=".size)}") }]
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

  # Whether the final empty line counts is ours to choose: the border lies within its two octets.
  def test_max_trailer_size
    running = serve(READ, max_trailer_size: 1_000)
    { 990 => 200, 1_010 => 431 }.each do |size, status|
      assert_equal status, ask(running, with_trailers("X: #{'v' * (size - 5)}\r\n")).status, "trailers of #{size}"
    end
  end

  def test_max_chunk_extensions
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
    octets = request("GET", "/", Array.new(100) { |nth| ["X-#{nth}", "v" * 500] } << %w[X-Last seen])
    client = connect(running)
    octets.scan(/.{1,1000}/mn) do |piece|
      client.write(piece)
      sleep 0.0005
    end
    assert_equal "seen", client.read.body
  end

  def test_unknown_and_unfit_options_are_refused
    { no_such_option: 1, header_timeout: "soon", max_body_size: -1 }.each do |name, value|
      error = assert_raises(ArgumentError, TypeError, RangeError, Abaca::Error) do
        Abaca::Server.new(HELLO, name => value)
      end
      assert_includes error.message, name.to_s
    end
  end

  # A GET request whose head has `size` octets.
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
end
