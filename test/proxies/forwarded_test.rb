# frozen_string_literal: true

require "test_helper"
require "support/server_case"
require "tmpdir"

# What a request's fields may say of the client, and who may say it: trusted_proxies and
# set_remote_address.
class ForwardedTest < Minitest::Test
  include ServerCase

  SEEN = %w[REMOTE_ADDR rack.url_scheme HTTPS SERVER_PORT].freeze
  APP = lambda do |env|
    [200, { "content-type" => "text/plain" }, [env.values_at(*SEEN).map { |value| value || "-" }.join(" ")]]
  end
  STRANGER = "127.0.0.1 http - 80"

  def seen(running, *lines, host: "a.test", version: "1.1")
    host = host ? "Host: #{host}\r\n" : ""
    ask(running, "GET / HTTP/#{version}\r\n#{host}#{lines.map { |line| "#{line}\r\n" }.join}\r\n").body
  end

  # Servers whose only client, 127.0.0.1, is a proxy and is none.
  def trusting(**options) = serve(APP, trusted_proxies: [:loopback, "10.0.0.0/8"], **options)
  def wary(**options) = serve(APP, trusted_proxies: ["10.0.0.0/8", "::1"], **options)

  def test_by_default_nobody_is_believed
    running = serve(APP, log_requests: true)
    assert_equal STRANGER, seen(running, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https",
                                "X-Forwarded-Ssl: on", "Forwarded: for=192.0.2.1;proto=https", "X-Real-IP: 192.0.2.1")
    assert running.logged?(/^127\.0\.0\.1 - - \[/)
  end

  def test_who_is_not_trusted_is_not_believed
    [wary, wary(forwarded_fields: :forwarded), wary(remote_address: { header: "X-Real-IP" })].each do |running|
      assert_equal STRANGER, seen(running, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https",
                                  "Forwarded: for=192.0.2.1;proto=https", "X-Real-IP: 192.0.2.1")
    end
  end

  def test_a_trusted_proxy_names_client_and_scheme
    running = trusting(log_requests: true)
    assert_equal "192.0.2.1 https on 443", seen(running, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https")
    assert running.logged?(/^192\.0\.2\.1 - - \[/)
    assert_equal "2001:db8::1 http - 80", seen(running, "X-Forwarded-For: [2001:db8::1]:5", "X-Forwarded-Proto: http")
    assert_equal "192.0.2.1 http - 80", seen(running, "x-forwarded-for: 6.6.6.6, 192.0.2.1, 10.1.1.1")
    assert_equal "192.0.2.1 http - 80", seen(running, "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1")
    assert_equal "127.0.0.1 https on 443", seen(running, "X-Forwarded-Proto: https")
    assert_equal STRANGER, seen(running)
  end

  def test_a_port_in_host_stands
    running = trusting
    assert_equal "127.0.0.1 https on 8443", seen(running, "X-Forwarded-Proto: https", host: "a.test:8443")
    assert_equal "127.0.0.1 https on 443", seen(running, "X-Forwarded-Proto: https", host: "a.test:")
    assert_equal "127.0.0.1 https on #{running.port}",
                 seen(running, "X-Forwarded-Proto: https", host: nil, version: "1.0")
  end

  def test_what_is_malformed_is_ignored
    running = trusting
    ["garbage", "unknown", "_hidden", "300.1.1.1", "1.2.3.4.5", "[::1", "\xFF", "\"1.2.3.4\"", ",", ""].each do |value|
      assert_equal STRANGER, seen(running, "X-Forwarded-For: #{value}", "X-Forwarded-Proto: #{value}"), value.inspect
    end
  end

  def test_underscores_do_not_count
    running = trusting
    assert_equal STRANGER, seen(running, "X_Forwarded_For: 6.6.6.6", "X_Forwarded_Proto: https", "X_Real_IP: 6.6.6.6")
    assert_equal "192.0.2.1 http - 80", seen(running, "X_Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1")
  end

  # One field or the other: a proxy that writes the one passes on the other as the client made it up.
  def test_forwarded
    running = trusting(forwarded_fields: :forwarded)
    both = "Forwarded: for=192.0.2.1;proto=https, for=10.0.0.1"
    assert_equal "192.0.2.1 https on 443", seen(running, "Forwarded: for=6.6.6.6;proto=http", both)
    assert_equal "2001:db8::1 http - 80", seen(running, "Forwarded: for=\"[2001:db8::1]:80\"")
    assert_equal STRANGER, seen(running, "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https")
    assert_equal STRANGER, seen(running, "Forwarded: for=_hidden")
    assert_equal STRANGER, seen(trusting, "Forwarded: for=6.6.6.6;proto=https")
  end

  def test_the_configured_scheme_stands_unless_a_proxy_says_otherwise
    running = trusting(rack_url_scheme: "https")
    assert_equal "127.0.0.1 https on 443", seen(running)
    assert_equal "127.0.0.1 http - 80", seen(running, "X-Forwarded-Proto: http")
    assert_equal "127.0.0.1 https on 443", seen(running, "X-Forwarded-Proto: https")
    assert_equal "127.0.0.1 https on 443", seen(serve(APP, rack_url_scheme: "https"), "X-Forwarded-Proto: http")
  end

  # What one request's proxy said is not said of the next one's.
  def test_requests_on_one_connection_stay_apart
    running = trusting
    client = connect(running)
    3.times do
      with = request("GET", "/", "X-Forwarded-For" => "192.0.2.1", "X-Forwarded-Proto" => "https")
      assert_equal "192.0.2.1 https on 443", client.call(with).body
      assert_equal STRANGER, client.call(GET).body
      assert_equal "192.0.2.2 http - 80", client.call(request("GET", "/", "X-Forwarded-For" => "192.0.2.2")).body
    end
    pipeline = %w[192.0.2.1 192.0.2.2].map { |peer| request("GET", "/", "X-Forwarded-For" => peer) }
    client.write(pipeline.join)
    assert_equal ["192.0.2.1 http - 80", "192.0.2.2 http - 80"], Array.new(2) { client.read.body }
  end

  def test_the_fields_stay_in_the_env
    fields = { "X-Forwarded-For" => "6.6.6.6, 192.0.2.1", "X-Forwarded-Proto" => "https" }
    running = serve(trusted_proxies: [:loopback]) do |env|
      seen = env.values_at("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO")
      [200, { "content-type" => "text/plain" }, [seen.join(" ")]]
    end
    assert_equal "6.6.6.6, 192.0.2.1 https", ask(running, request("GET", "/", fields)).body
  end

  # The source that a PROXY header names is the peer that has to be trusted.
  def test_behind_a_proxy_that_speaks_the_proxy_protocol
    running = wary
    running.port = running.server.add_tcp_listener("127.0.0.1", 0, proxy_protocol: :v1)
    fields = { "X-Forwarded-For" => "192.0.2.1", "X-Forwarded-Proto" => "https" }
    { "10.0.0.9" => "192.0.2.1 https on 443", "192.0.2.9" => "192.0.2.9 http - 80" }.each do |source, expected|
      header = "PROXY TCP4 #{source} 10.0.0.1 1 2\r\n"
      assert_equal expected, ask(running, header + request("GET", "/", fields)).body
    end
  end

  def test_a_unix_socket_is_the_loopback
    Dir.mktmpdir do |dir|
      running = trusting
      running.server.add_unix_listener(path = File.join(dir, "s"))
      answer = UNIXSocket.open(path) do |socket|
        socket.write("GET / HTTP/1.0\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
        socket.read
      end
      assert_match(/\r\n\r\n192\.0\.2\.1 http/, answer)
    end
  end

  # Puma's set_remote_address.

  def test_a_fixed_address
    { :localhost => "127.0.0.1", "192.0.2.99" => "192.0.2.99", "any text" => "any text" }.each do |value, expected|
      running = serve(APP, lint: false, remote_address: value)
      running.port = running.server.add_tcp_listener("127.0.0.1", 0, proxy_protocol: :v1)
      2.times do |time|
        header = "PROXY TCP4 192.0.2.#{time} 10.0.0.1 1 2\r\n"
        assert_equal "#{expected} http - 80", ask(running, header + GET).body
      end
    end
  end

  def test_an_address_from_a_field
    running = serve(APP, remote_address: { header: "X-Real-IP" })
    { "192.0.2.1" => "192.0.2.1", "192.0.2.1, 6.6.6.6" => "192.0.2.1", "192.0.2.1 x" => "192.0.2.1",
      "[2001:db8::1]:80" => "2001:db8::1", "" => "127.0.0.1", "garbage" => "127.0.0.1" }.each do |value, expected|
      assert_equal "#{expected} http - 80", seen(running, "x-real-ip: #{value}", "X-Forwarded-Proto: https"), value
    end
    assert_equal STRANGER, seen(running, "X_Real_IP: 6.6.6.6")
    assert_equal STRANGER, seen(running)
  end

  def test_an_address_from_a_field_of_trusted_proxies_only
    running = trusting(remote_address: { header: "X-Client" })
    assert_equal "192.0.2.1 https on 443",
                 seen(running, "X-Client: 192.0.2.1", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https")
    assert_equal STRANGER, seen(wary(remote_address: { header: "X-Client" }), "X-Client: 192.0.2.1")
  end

  def test_the_proxy_protocol_as_puma_has_it
    running = serve(APP, remote_address: { proxy_protocol: :v1 })
    assert_equal "192.0.2.1 http - 80", ask(running, "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n#{GET}").body
    assert_equal STRANGER, seen(running)
    assert_equal 400, ask(running, "PROXY TCP4 garbage\r\n#{GET}").status
    client = connect(running)
    assert_equal 200, client.call(GET).status
    assert_equal 400, client.call("PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n#{GET}").status
    running.port = running.server.add_tcp_listener("127.0.0.1", 0, proxy_protocol: :v2)
    assert_equal 400, ask(running).status, "a place's own setting wins"
  end

  # The env of a compacted heap still knows whom to trust.
  def test_compaction
    skip "no compaction here" unless GC.respond_to?(:compact)

    running = trusting(remote_address: { header: "X-Client" })
    2.times do
      assert_equal "192.0.2.1 https on 443", seen(running, "X-Client: 192.0.2.1", "X-Forwarded-Proto: https")
      GC.compact
    end
  rescue NotImplementedError
    skip "no compaction here"
  end
end
