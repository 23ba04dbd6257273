# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/tls_case"

# An app behind TLS, as it sees its clients, and as they see it.
class TLSServingTest < Minitest::Test
  include TLSCase

  KEYS = %w[rack.url_scheme HTTPS SERVER_NAME SERVER_PORT HTTP_HOST SERVER_PROTOCOL puma.peercert].freeze

  def test_the_env
    _, port = serve_tls { |env| [200, TYPE.dup, [KEYS.to_h { |key| [key, env[key]] }.inspect]] }
    assert_equal({ "rack.url_scheme" => "https", "HTTPS" => "on", "SERVER_NAME" => "a.test", "SERVER_PORT" => "443",
                   "HTTP_HOST" => "a.test", "SERVER_PROTOCOL" => "HTTP/1.1", "puma.peercert" => nil }.inspect,
                 told(secure(port)))
  end

  # The templates of both are one.
  def test_beside_a_listener_without_tls
    keys = %w[rack.url_scheme HTTPS SERVER_PORT]
    running, port = serve_tls { |env| [200, TYPE.dup, [env.values_at(*keys).inspect]] }
    plain = connect(running)
    client = secure(port)
    3.times do
      assert_equal ["http", nil, "80"].inspect, plain.call(GET).body
      assert_equal %w[https on 443].inspect, client.call(GET).body
    end
    keys.replace(%w[abaca.tls puma.peercert])
    assert_equal [nil, nil].inspect, plain.call(GET).body
  end

  def test_what_is_told_of_the_connection
    seen = []
    _, port = serve_tls do |env|
      seen << env["abaca.tls"]
      [200, TYPE.dup, ["ok"]]
    end
    client = secure(port, host: "b.a.test", alpn: ["http/1.1"])
    2.times { assert_equal "ok", told(client) }
    client.close
    info, again = seen
    assert_same info, again, "one for a connection"
    told(secure(port, host: nil, ca: nil) { |context| context.max_version = OpenSSL::SSL::TLS1_2_VERSION })
    other = seen.last
    refute_same info, other
    finish(@running.first)
    GC.start
    assert_equal ["TLSv1.3", "b.a.test", "http/1.1", false, nil, nil],
                 [info.version, info.sni, info.alpn, info.resumed?, info.client_dn, info.client_certificate]
    assert_match(/\ATLS_/, info.cipher)
    assert_includes [128, 256], info.bits
    assert_equal ["TLSv1.2", nil, nil], [other.version, other.sni, other.alpn]
  end

  # Their objects go when the connections have gone.
  def test_many_connections
    ids = []
    _, port = serve_tls { |env| (ids << env["abaca.tls"].object_id) && [200, TYPE.dup, ["ok"]] }
    40.times do
      client = secure(port)
      told(client)
      client.close
    end
    assert_equal 40, ids.uniq.size
    assert(eventually do
      client = secure(port)
      told(client)
      client.close
      GC.start
      ObjectSpace.each_object(Abaca::TLSInfo).count < 20
    end)
  end

  def test_names_choose
    other = @made.make("b", names: ["b.test"])
    rsa = @made.make("b-rsa", names: ["b.test"], kind: :rsa)
    _, port = serve_tls(tls: { certificates: [@pair, other, rsa].map(&:files) })
    serial = ->(**options, &block) { secure(port, **options, &block).certificate.serial.to_i }
    assert_equal @pair.cert.serial, serial.call
    assert_equal @pair.cert.serial, serial.call(host: "X.A.test")
    assert_equal @pair.cert.serial, serial.call(host: nil)
    assert_equal @pair.cert.serial, serial.call(host: "c.test", ca: nil)
    assert_equal other.cert.serial, serial.call(host: "b.test")
    rsa_only = ->(context) { (context.max_version = OpenSSL::SSL::TLS1_2_VERSION) && context.ciphers = "aRSA" }
    assert_equal rsa.cert.serial, serial.call(host: "b.test", &rsa_only)
  end

  def test_bodies_in_both_directions
    _, port = serve_tls { |env| [200, TYPE.dup, [env["rack.input"].read.reverse]] }
    client = secure(port)
    body = Random.bytes(300_000)
    3.times { assert_equal body.reverse, client.call(request("POST", "/", body: body)).body }
    head = request("POST", "/", { "Transfer-Encoding" => "chunked" })
    assert_equal "cba", client.call(head + chunked("a", "bc")).body
  end

  def test_versions
    _, port = serve_tls(tls: { **@pair.files, min_version: "1.3" })
    assert_equal "TLSv1.3", secure(port).version
    assert_raises(OpenSSL::SSL::SSLError) { secure(port) { |context| context.max_version = OpenSSL::SSL::TLS1_2_VERSION } }
  end

  def test_an_ssl_context_of_ruby
    context = OpenSSL::SSL::SSLContext.new
    context.cert = @pair.cert
    context.key = @pair.key
    running = serve
    port = listen(running, context)
    assert_equal 200, secure(port).call(GET).status
    assert_equal 200, secure(listen(running, **@pair.texts)).call(GET).status
    assert_equal "https", URI(running.server.urls.last).scheme
  end

  def test_a_listener_of_no_use
    server = Abaca::Server.new(HELLO)
    error = assert_raises(Abaca::ConfigError) { server.add_ssl_listener("127.0.0.1", 0, cert: "/no", key: "/no") }
    assert_match(%r{\Assl://127.0.0.1:0: certificate /no: No such file}, error.message)
    assert_empty server.urls
  ensure
    server&.close
  end

  def test_the_proxy_protocol_comes_first
    _, port = serve_tls(tls: { **@pair.files, proxy_protocol: :v1 }) { |env| [200, TYPE.dup, [env["REMOTE_ADDR"]]] }
    assert_equal "192.0.2.9", told(secure(port, before: "PROXY TCP4 192.0.2.9 192.0.2.1 5 6\r\n"))
  end

  def test_http_without_tls
    running, port = serve_tls(tls: { **@pair.files })
    plain = Wire::Client.new(port).tap { |client| @clients << client }
    assert_equal 400, plain.call(GET).status
    port = listen(running, **@pair.files, plain_http: :redirect)
    plain = Wire::Client.new(port).tap { |client| @clients << client }
    response = plain.call("GET /a?b HTTP/1.1\r\nHost: a.test:#{port}\r\n\r\n")
    assert_equal [308, "https://a.test:#{port}/a?b"], [response.status, response["location"]]
  end

  def test_redirects
    running, = serve_tls
    port = running.server.add_tcp_listener("127.0.0.1", 0, redirect: :https, redirect_port: 8443)
    client = -> { Wire::Client.new(port).tap { |one| @clients << one } }
    moved = client.call.call("GET /a?b HTTP/1.1\r\nHost: x.a.test\r\n\r\n")
    assert_equal [301, "https://x.a.test:8443/a?b"], [moved.status, moved["location"]]
    assert_equal 308, client.call.call("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n").status
    assert_equal 421, client.call.call("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n").status
    acme = client.call.call("GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert_equal [200, "hello\n"], [acme.status, acme.body]
    port = running.server.add_tcp_listener("127.0.0.1", 0, redirect: :https, redirect_hosts: ["evil.test"])
    assert_equal "https://evil.test/", client.call.call("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")["location"]
  end

  # As in a URL: nothing that is not known is taken for something else.
  def test_what_is_wrong_with_a_redirect
    server = Abaca::Server.new(->(_) {})
    { { redirect: :http } => /\Aredirect: https is needed, not :http/,
      { redirect: :https, redirect_hosts: "a b" } => /redirect_hosts: "a b" is no host/,
      { redirect: :https, redirect_port: "x" } => /redirect_port=x is not a number that fits/,
      { redirect_port: 1 } => /redirect_port has no effect without redirect=https/,
      { plain_http: "yes" } => /plain_http: refuse or redirect is needed, not "yes"/ }.each do |options, message|
      error = assert_raises(Abaca::ConfigError, options) { server.add_tcp_listener("127.0.0.1", 0, **options) }
      assert_match message, error.message
    end
    assert_empty server.urls
    assert_operator server.add_tcp_listener("127.0.0.1", 0, redirect: "https", redirect_hosts: "A.test,b.test"), :>, 0
  ensure
    server&.close
  end

  # Nothing is read as an Array that is none.
  def test_hosts_of_a_redirect_are_an_array
    server = Abaca::Server.new(->(_) {})
    listener, = Abaca::Listener.of_host("127.0.0.1", 0, log: server.log, dead_after: 0)
    engine = server.instance_variable_get(:@engine)
    terms = { limits: {}, proxy_protocol: nil, proxy_from: [], h2c: false, tls: nil, plain_http: nil }
    ["a.test", [1]].each do |hosts|
      assert_raises(TypeError) { engine.listen(listener, **terms, redirect: { hosts:, port: nil }) }
    end
  ensure
    listener&.close
  end
end
