# frozen_string_literal: true

require "test_helper"
require "support/takeover_ends"
require "support/tls_case"

# Connections over TLS that the app takes over: it has one end of a pair of sockets (docs/rack.md).
class TLSTakeoverTest < Minitest::Test
  include TLSCase
  include TakeoverEnds

  UPGRADE = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
  IGNORED = [200, { "content-type" => "text/plain" }, ["ignored"]].freeze
  PLENTY = Random.new(1).bytes(3 << 20).freeze

  # A server whose app takes the connection, in a fiber of the request's, and a client of it.
  def takes(**options, &block)
    running, port = serve_tls(lint: false, **options) do |env|
      io = env["rack.hijack"].call
      begin
        block.call(io, env)
      ensure
        io.close unless io.closed?
      end
      IGNORED.dup
    end
    [running, secure(port)]
  end

  # The same for an app that hands the socket to the test.
  def taken_over(**options)
    sockets = Queue.new
    running, port = serve_tls(lint: false, **options) do |env|
      sockets << env["rack.hijack"].call
      IGNORED.dup
    end
    [running, secure(port).write(GET), sockets.pop]
  end

  def test_what_the_app_gets
    kinds = Queue.new
    _, client = takes do |io, env|
      kinds << [io.class, io.equal?(env["rack.hijack_io"]), env["rack.url_scheme"]]
      io.write("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 4\r\n\r\nmine")
    end
    assert_equal "mine", client.call(GET).body
    assert client.closed?
    assert_equal [UNIXSocket, true, "https"], kinds.pop
  end

  # What came with the head, in one record, and what comes later.
  def test_bytes_that_came_with_the_head
    _, client = takes { |io| io.write(io.read(5).upcase, io.gets, io.readpartial(100)) }
    assert_equal "ABCDEline\nrest", client.write("#{GET}abcdeline\nrest").drain
  end

  def test_bytes_that_come_later
    _, client = takes { |io| io.write(io.readpartial(10).reverse) until io.wait_readable(1) && io.eof? }
    client.write(GET)
    %w[abc defgh].each { |word| assert_equal word.reverse, client.write(word).read_some }
  end

  def test_much_in_both_directions
    _, client = takes do |io|
      got = io.read(PLENTY.bytesize)
      io.write(got == PLENTY ? "same" : "different", PLENTY)
    end
    writer = Thread.new { client.write(GET + PLENTY) }
    assert_equal "same#{PLENTY}", client.drain
    writer.join
  end

  # The side that sends waits for the one that reads: little of it is in the server.
  def test_a_reader_that_stands_still
    running, client, io = taken_over
    written = 0
    loop { written += io.write_nonblock(PLENTY) }
  rescue IO::WaitWritable
    sleep 0.2
    retry if written < 100_000
    assert_operator written, :<, PLENTY.bytesize
    io.close
    assert_equal PLENTY[0, written], client.drain[0, written]
    assert eventually { running.server.stats.values_at(:taken_over, :tls_connections) == [0, 0] }
  end

  def test_an_upgrade
    _, port = serve_tls(lint: false) do
      [101, { "rack.protocol" => "echo" }, ->(stream) { stream.write(stream.gets) && stream.close }]
    end
    client = secure(port)
    head, rest = client.write("#{UPGRADE}ahead\n").drain.split("\r\n\r\n", 2)
    assert_match(%r{\AHTTP/1\.1 101 Switching Protocols\r\n}, head)
    assert_match(/^upgrade: echo/i, head)
    assert_equal "ahead\n", rest
  end

  def test_it_counts_until_it_is_closed
    running, client, io = taken_over
    assert_equal [1, 1, 1], running.server.stats.values_at(:detached, :taken_over, :tls_connections)
    io.close
    assert_nil client.read_some
    assert eventually { running.server.stats.values_at(:taken_over, :tls_connections) == [0, 0] }
  end

  def test_a_client_that_goes
    running, client, io = taken_over
    client.close
    assert_nil io.read(1)
    assert_raises(Errno::EPIPE) { 100.times { io.write("x") && sleep(0.01) } }
    io.close
    assert eventually { running.server.stats.values_at(:taken_over, :tls_connections) == [0, 0] }
  end

  def test_over_http2_there_is_none
    keys = Queue.new
    _, port = serve_tls(lint: false) do |env|
      keys << env.values_at("rack.hijack?", "rack.hijack", "SERVER_PROTOCOL", "rack.url_scheme")
      [200, TYPE.dup, ["ok"]]
    end
    client = secure_http2(port)
    client.send_words("headers 1 es,eh :get")
    client.read_until { client.complete?(1) }
    assert_equal "ok", client.body(1)
    assert_equal [nil, nil, "HTTP/2", "https"], keys.pop
  end
end
