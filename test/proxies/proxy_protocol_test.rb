# frozen_string_literal: true

require "test_helper"
require "support/server_case"
require "ipaddr"
require "tmpdir"

# The PROXY protocol on a listener: the address that it names is the client's, for the app and the log.
class ProxyProtocolTest < Minitest::Test
  include ServerCase

  V1 = "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"
  V1_TCP6 = "PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n"
  SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b

  APP = lambda do |env|
    seen = env.values_at("REMOTE_ADDR", "SERVER_PORT", "rack.url_scheme")
    [200, { "content-type" => "text/plain" }, [seen.join(" ")]]
  end

  # A header of version 2. command: 1 is PROXY, 0 LOCAL; family: 0x11, 0x21, ...; rest: addresses and TLVs.
  def v2(command, family, rest)
    SIGNATURE + [0x20 | command, family, rest.bytesize].pack("CCn") + rest.b
  end

  def v2_tcp4(tlvs = "") = v2(1, 0x11, [192, 0, 2, 8, 127, 0, 0, 1, 1000, 80].pack("C8n2") + tlvs.b)

  def v2_tcp6(source = "2001:db8::8")
    v2(1, 0x21, IPAddr.new(source).hton + IPAddr.new("::1").hton + [1000, 80].pack("n2"))
  end

  # A server with a further listener of the given options: its port.
  def listen(running, **options)
    # Connections are accepted before they send something.
    running.server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, **options)
  end

  def serve_proxied(**options)
    running = serve(APP, log_requests: true)
    running.port = listen(running, **options)
    running
  end

  def peer_of(running, bytes) = ask(running, bytes).body.split.first

  def test_each_form_names_the_client
    running = serve_proxied(proxy_protocol: :any)
    { V1 => "192.0.2.7", V1_TCP6 => "2001:db8::7", "PROXY UNKNOWN\r\n" => "127.0.0.1",
      "PROXY UNKNOWN 1.2.3.4 5.6.7.8 1 2\r\n" => "127.0.0.1", v2_tcp4 => "192.0.2.8", v2_tcp6 => "2001:db8::8",
      v2_tcp4("\x03\x00\x04abcd\x04\x00\x80#{'n' * 128}") => "192.0.2.8", v2(0, 0x11, "\0" * 12) => "127.0.0.1",
      v2(0, 0, "") => "127.0.0.1", v2(1, 0, "") => "127.0.0.1", v2(1, 0x31, "\0" * 216) => "127.0.0.1",
      v2_tcp6("::ffff:10.1.2.3") => "10.1.2.3" }
      .each { |header, peer| assert_equal peer, peer_of(running, header.b + GET), header.inspect }
  end

  # Port and scheme are still those of the request: a PROXY header says nothing of either.
  def test_only_the_client_s_address_changes
    running = serve_proxied(proxy_protocol: :v1)
    assert_equal "192.0.2.7 80 http", ask(running, V1 + GET).body
  end

  def test_the_access_log_has_the_address
    running = serve_proxied(proxy_protocol: :v1)
    ask(running, V1 + GET)
    assert running.logged?(/^192\.0\.2\.7 - - \[/)
  end

  def test_split_packets
    running = serve_proxied(proxy_protocol: :any)
    [V1.b, v2_tcp4].each do |header|
      bytes = header + GET
      [1, 5, 6, 11, 12, 13, 15, 16, 27, header.size - 1, header.size, header.size + 1].each do |cut|
        received = running.server.stats[:received]
        client = connect(running).write(bytes.byteslice(0, cut))
        assert(eventually { running.server.stats[:received] == received + cut })
        assert_match(/\A192\.0\.2\.[78] /, client.call(bytes.byteslice(cut..)).body)
      end
      client = connect(running)
      bytes.each_char { |byte| client.write(byte) }
      assert_match(/\A192\.0\.2\.[78] /, client.read.body)
    end
  end

  def test_the_address_holds_for_the_connection_and_no_longer
    running = serve_proxied(proxy_protocol: :v1)
    client = connect(running)
    assert_match(/\A192\.0\.2\.7 /, client.call(V1 + GET).body)
    2.times { assert_match(/\A192\.0\.2\.7 /, client.call(GET).body) }
    assert_match(/\A2001:db8::7 /, ask(running, V1_TCP6 + GET).body)
    assert_match(/\A127\.0\.0\.1 /, ask(running, "PROXY UNKNOWN\r\n#{GET}").body)
  end

  def assert_refused(running, bytes)
    client = connect(running)
    response = client.call(bytes)
    assert_equal [400, true], [response.status, response.close?], bytes.inspect
    assert client.closed?
  end

  def test_a_missing_malformed_or_wrong_one_is_refused
    running = serve_proxied(proxy_protocol: :v1)
    [GET, v2_tcp4 + GET, "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n#{GET}", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n#{GET}",
     "PROXY #{'x' * 200}", "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n#{GET}"]
      .each { |bytes| assert_refused(running, bytes) }
    running.port = listen(running, proxy_protocol: :v2)
    [GET, V1 + GET, v2(1, 0x11, "\0" * 11) + GET, v2(1, 0x12, "\0" * 12) + GET, v2(2, 0x11, "\0" * 12) + GET,
     v2(1, 0x11, "\0" * 5000), SIGNATURE.tr("Q", "q")].each { |bytes| assert_refused(running, bytes) }
  end

  # CVE-2026-47737: a client behind the proxy must not name another address later.
  def test_a_second_one_is_refused_on_a_kept_connection
    running = serve_proxied(proxy_protocol: :any)
    [V1 + V1, V1 + v2_tcp4, v2_tcp4 + V1, v2_tcp4 + v2_tcp4].each { |bytes| assert_refused(running, bytes + GET) }
    client = connect(running)
    assert_equal 200, client.call(V1 + GET).status
    assert_equal 400, client.call(V1_TCP6 + GET).status
    assert client.closed?
  end

  # CVE-2026-47736: a line that never ends is not waited for.
  def test_an_endless_line_is_cut_off
    client = connect(serve_proxied(proxy_protocol: :v1))
    client.write("PROXY UNKNOWN #{'x' * 92}")
    assert client.silent?(0.05)
    assert_equal 400, client.call("x").status
    assert client.closed?
  end

  def test_without_the_option_it_is_refused
    running = serve(APP)
    [V1, v2_tcp4].each { |header| assert_refused(running, header + GET) }
  end

  # A listener that comes while the server runs has its terms from the first connection on, which may be there before.
  def test_who_has_come_before_the_listener
    running = serve(APP)
    20.times do |i|
      waiting = TCPServer.new("127.0.0.1", 0)
      running.port = waiting.local_address.ip_port
      client = connect(running).write(i.even? ? GET : V1 + GET)
      waiting.autoclose = false
      running.server.add_listener_fd(waiting.fileno, proxy_protocol: :v1)
      assert_equal [i.even? ? 400 : 200, i.even?], client.read.then { |response| [response.status, response.close?] }
    end
  end

  def test_only_the_proxies_named_send_it
    running = serve_proxied(proxy_protocol: :any, proxy_from: [:loopback])
    assert_equal "192.0.2.7", peer_of(running, V1 + GET)
    assert_refused(running, GET)
    running.port = listen(running, proxy_protocol: :any, proxy_from: ["10.0.0.0/8", "::1"])
    assert_equal "127.0.0.1", peer_of(running, GET)
    assert_refused(running, V1 + GET)
  end

  def test_silence_ends_with_header_timeout
    running = serve(APP, header_timeout: 2)
    running.port = listen(running, proxy_protocol: :v1)
    silent = connect(running)
    half = connect(running).write("PROXY TC")
    assert silent.closed?
    assert_equal 408, half.read.status
  end

  def test_a_listener_that_waits_for_data_to_accept
    running = serve(APP)
    running.port = running.server.add_tcp_listener("127.0.0.1", 0, defer_accept: true, proxy_protocol: :v1)
    client = connect(running).write(V1)
    assert(eventually { running.server.stats[:received] == V1.bytesize })
    assert_match(/\A192\.0\.2\.7 /, client.call(GET).body)
  end

  def test_a_unix_socket
    Dir.mktmpdir do |dir|
      running = serve(APP)
      path = File.join(dir, "s")
      running.server.add_unix_listener(path, proxy_protocol: :v1, proxy_from: [:loopback])
      answer = UNIXSocket.open(path) do |socket|
        socket.write("#{V1}GET / HTTP/1.0\r\nHost: a.test\r\n\r\n")
        socket.read
      end
      assert_match(/\r\n\r\n192\.0\.2\.7 /, answer)
    end
  end

  def test_options_are_checked
    server = Abaca::Server.new(APP)
    { { proxy_protocol: :v3 } => "proxy_protocol: v1, v2 or any is needed, not :v3",
      { proxy_from: ["::1"] } => "proxy_from: means nothing without proxy_protocol",
      { proxy_protocol: :v1, proxy_from: ["10/8"] } => %r{\Aproxy_from: "10/8" is no address, no network} }
      .each do |options, message|
        error = assert_raises(Abaca::ConfigError) { server.add_tcp_listener("127.0.0.1", 0, **options) }
        assert_operator message, :===, error.message
        assert_raises(Abaca::ConfigError) { server.add_unix_listener("@abaca-#{Process.pid}", **options) }
      end
  ensure
    server&.close
  end
end
