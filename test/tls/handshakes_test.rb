# frozen_string_literal: true

require "test_helper"
require "support/tls_case"

# Handshakes over the wire: their limits, what is counted, and what is in clear.
class TLSHandshakesTest < Minitest::Test
  include TLSCase

  HELLO = "\x16\x03\x01\x02\x00\x01\x00\x01\xFC".b.freeze

  def stats(running, *names) = running.server.stats.values_at(*names.map { |name| :"tls_#{name}" })

  def test_what_is_counted
    running, port = serve_tls
    first = secure(port)
    told(first)
    again = secure(port, session: first.session)
    told(again)
    assert again.resumed?
    assert_equal [2, 1, 0, 0, 2], stats(running, :handshakes, :resumed, :failed, :waiting, :connections)
    raw = Wire::Client.new(port).tap { |client| @clients << client }
    raw.write(HELLO)
    assert eventually { stats(running, :waiting, :connections) == [1, 3] }
    raw.close
    assert_raises(OpenSSL::SSL::SSLError) { secure(port, alpn: ["spdy/3"]) }
    assert eventually { stats(running, :handshakes, :failed, :waiting, :connections) == [2, 2, 0, 2] }
  end

  # Half a record, then silence: nothing is computed, and then it is closed.
  def test_half_a_client_hello
    running, port = serve_tls(tls_handshake_timeout: 1)
    raw = Wire::Client.new(port).tap { |client| @clients << client }
    raw.write(HELLO)
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    assert raw.closed?
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before, :<, 0.5
    assert_equal [1, 0, 0], stats(running, :failed, :waiting, :connections)
  end

  # The time runs on to the first byte of a request.
  def test_a_handshake_and_no_request
    _, port = serve_tls(tls_handshake_timeout: 1)
    assert secure(port).closed?
  end

  def test_others_are_served_while_handshakes_stand
    running, port = serve_tls(max_tls_handshakes: 4)
    raw = Array.new(8) { Wire::Client.new(port).tap { |client| @clients << client } }
    raw.each { |client| client.write(HELLO) }
    assert eventually { stats(running, :waiting) == [4] }
    assert_equal "hello\n", ask(running).body
    # Who has been silent for a second makes room.
    assert_equal "hello\n", told(secure(port))
  end

  def test_http_in_clear
    running, port = serve_tls
    other = listen(running, plain_http: :redirect, **@pair.files)
    client = Wire::Client.new(port).tap { |one| @clients << one }
    response = client.write("#{GET}#{GET}").read
    assert_equal [400, "400 Bad Request: use https for this port.\n"], [response.status, response.body]
    assert client.closed?
    client = Wire::Client.new(other).tap { |one| @clients << one }
    response = client.write("POST /a?b HTTP/1.1\r\nHost: a.test:#{other}\r\nContent-Length: 0\r\n\r\n").read
    assert_equal [308, "https://a.test:#{other}/a?b"], [response.status, response["location"]]
    assert client.closed?
    assert_equal 0, running.server.stats[:requests]
  end

  # Who was asked for no certificate does not get to a host whose own listener demands one.
  def test_a_host_of_another_listener
    running, port = serve_tls
    demanding = @made.make("b", names: ["b.test"])
    listen(running, **demanding.files, ca: @made.authority.cert_path, verify_mode: :force_peer)
    hosts = { "a.test" => 200, "other.test" => 200, "b.test" => 421 }
    hosts.each do |host, status|
      client = secure(port)
      assert_equal status, client.call("GET / HTTP/1.1\r\nHost: #{host}\r\n\r\n").status
    end
    client = secure_http2(port)
    hosts.each_with_index do |(host, status), nth|
      stream = (2 * nth) + 1
      client.send_words("headers #{stream} es,eh 828784 01#{format("%02x", host.bytesize)}'#{host}'")
      client.read_until { client.complete?(stream) }
      assert_equal status, client.status(stream)
    end
  end

  # Full handshakes, more than a step makes signatures for, beside requests in clear.
  def test_many_at_once
    running, port = serve_tls
    clients = Array.new(40) { Thread.new { secure(port) } }
    20.times { assert_equal "hello\n", ask(running).body }
    clients.each { |thread| assert_equal "hello\n", told(thread.value) }
    assert_equal [40, 0, 0], stats(running, :handshakes, :failed, :waiting)
  end

  def test_a_stop_says_goodbye
    running, port = serve_tls
    client = secure(port)
    told(client)
    running.stop
    assert client.closed?, "by close_notify: without it, reading raises SSLError"
  end
end
