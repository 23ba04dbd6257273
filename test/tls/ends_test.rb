# frozen_string_literal: true

require "test_helper"
require "support/tls_case"

# Clients that end without close_notify, in each state: between messages that is an end like others, within one the
# message is lost. And what the server says at its own end.
class TLSEndsTest < Minitest::Test
  include TLSCase

  def setup
    super
    return unless @before

    @seen = Queue.new
    @served, @port = serve_tls(lint: false, **ServerCase::STREAMED) { |env| answer(env) }
  end

  def test_in_the_handshake
    client = Wire::Client.new(@port).tap { |one| @clients << one }
    client.write("\x16\x03\x01\x01\x00\x01\x00").half_close
    assert_nil client.read_some
    assert_forgotten
  end

  def test_between_messages
    client = secure(@port)
    assert_equal "GET /", told(client)
    client.half_close
    assert_predicate client, :closed?
    assert_forgotten
  end

  def test_in_a_head
    client = secure(@port).write("GET / HTTP/1.1\r\nHost: a.te")
    client.half_close
    client.drain
    assert_forgotten
    assert_empty @seen
  end

  def test_in_a_body
    client = secure(@port).write(request("POST", "/", "Content-Length" => "100") + "abc")
    client.half_close
    client.drain
    assert_kind_of Abaca::IncompleteBody, @seen.pop
    assert_forgotten
  end

  def test_in_a_chunk
    client = secure(@port).write("#{request("POST", "/", "Transfer-Encoding" => "chunked")}9\r\nabc")
    client.socket.end_write # close_notify alone completes no message either
    client.drain
    assert_kind_of Abaca::IncompleteBody, @seen.pop
    assert_forgotten
  end

  # A client may end its side, and still gets its answer (close_notify in TLS 1.3 ends one direction).
  def test_behind_a_request
    [:half_close, -> { _1.socket.end_write }].each do |ends|
      client = secure(@port).write(request("GET", "/", "Connection" => "close"))
      ends.to_proc.call(client)
      assert_equal "GET /", client.read.body
      assert_predicate client, :closed?
    end
    assert_forgotten
  end

  def test_while_the_response_comes
    client = secure(@port, receive_buffer: 4096).write(request("GET", "/much"))
    client.read_some(1)
    client.reset
    assert_equal :closed, @seen.pop
    assert_forgotten
  end

  # Ruby's client raises where that is missing.
  def test_the_server_says_goodbye
    client = secure(@port)
    assert_equal "GET /", client.call(request("GET", "/", "Connection" => "close")).body
    assert_nil client.read_some
    idle = secure(@port)
    told(idle)
    @served.stop
    assert_nil idle.read_some
  end

  # What only the end of the connection ends must not end in order when it breaks off. Ruby's client does not always
  # tell the difference, so the records are looked at: an alert has 19 bytes in TLS 1.3.
  def test_a_broken_body
    lengths = %w[/broken /whole].map do |path|
      lengths_of_records(secure(@port).write("GET #{path} HTTP/1.0\r\n\r\n").socket.io)
    end
    refute_includes lengths.first, 19
    assert_equal 19, lengths.last.last
  end

  private

  # What is much goes on until it is closed.
  class Much
    def initialize(seen) = @seen = seen
    def each = loop { yield "x" * 65_536 }
    def close = @seen << :closed
  end

  def answer(env)
    return [200, TYPE.dup, Much.new(@seen)] if env["PATH_INFO"] == "/much"

    return [200, TYPE.dup, half(env["PATH_INFO"])] if ["/broken", "/whole"].include?(env["PATH_INFO"])

    env["rack.input"]&.read
    [200, TYPE.dup, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"]]
  rescue StandardError => e
    @seen << e
    raise
  end

  # Of all that come until the end.
  def lengths_of_records(socket)
    bytes = String.new(encoding: Encoding::BINARY)
    loop { bytes << socket.readpartial(65_536) }
  rescue EOFError, Errno::ECONNRESET
    lengths = []
    lengths << (bytes.slice!(0, 5 + bytes.unpack1("@3n")).bytesize - 5) while bytes.bytesize >= 5
    lengths
  end

  def half(path)
    Enumerator.new do |out|
      out << "half"
      raise "broken" if path == "/broken"
    end
  end

  # The server has no connection any more.
  def assert_forgotten
    assert eventually { @served.server.stats[:connections].zero? }, @served.server.stats.inspect
  end
end
