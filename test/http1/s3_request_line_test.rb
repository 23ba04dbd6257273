# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 3, Request Line: method, target and the URI that they make up with Host.
class Http1S3RequestLineTest < Minitest::Test
  include ServerCase

  # What an app sees of the target.
  SEEN = lambda do |env|
    keys = %w[REQUEST_METHOD PATH_INFO QUERY_STRING SERVER_NAME SERVER_PORT HTTP_HOST]
    [200, { "content-type" => "text/plain" }, [env.values_at(*keys).inspect]]
  end

  # What the app sees of a request for `target` with these Host fields.
  def seen(target, *hosts, verb: "GET")
    fields = hosts.map { |host| "Host: #{host}\r\n" }.join
    # Rack 2's Lint does not know that a path may be "*".
    ask(serve(SEEN, lint: false), "#{verb} #{target} HTTP/1.1\r\n#{fields}\r\n").body
  end

  def test_3_one_blank_stands_between_the_parts
    ["GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1"].each do |line|
      assert_refused 400, "#{line}\r\nHost: a.test\r\n\r\n"
    end
  end

  ALIENS = {
    "\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03".b => "a TLS handshake",
    "\x80.\x01\x00\x02".b => "a TLS handshake",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" => "an HTTP/2 preface",
    "SSH-2.0-OpenSSH_9.2\r\n" => "an SSH banner",
    "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n#{GET}" => "a PROXY header, which this listener does not expect,"
  }.freeze

  # One line for whoever looks for it, and none for who does not.
  def test_3_what_is_no_http_is_refused_and_named
    output = StringIO.new
    running = serve(log: Abaca::Log.new(output, output, level: :debug))
    ALIENS.each do |bytes, name|
      before = output.string.bytesize
      client = connect(running).write(bytes)
      assert_includes [400, 505], client.read.status, name
      assert client.closed?, name
      assert eventually { running.server.log.flush && output.string.bytesize > before }, name
      assert_equal "% 127.0.0.1 has sent #{name} to an HTTP port: refused\n", output.string.byteslice(before..)
    end
  end

  def test_3_what_is_no_http_leaves_no_line_in_the_usual_log
    running = serve
    ALIENS.each_key { |bytes| connect(running).write(bytes).read }
    running.stop
    assert_empty running.log
  end

  def test_3_a_line_that_is_too_long
    assert_refused 414, request("GET", "/#{'a' * 17_000}")
    assert_refused 501, "#{'A' * 17_000} / HTTP/1.1\r\n"
  end

  def test_3_1_methods_are_case_sensitive_tokens
    assert_refused 501, request("get")
    assert_refused 501, request("BREW")
    assert_refused 400, request("G(T")
  end

  def test_3_1_a_list_of_methods_replaces_the_registry
    running = serve(SEEN, lint: false, supported_http_methods: %w[GET BREW TRACE CONNECT])
    %w[GET BREW TRACE].each { |verb| assert_includes ask(running, request(verb)).body, verb.inspect }
    %w[POST PROPFIND brew BREWS].each { |verb| assert_refused 501, request(verb), running }
    assert_refused 501, "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", running
    assert_refused 501, request("POST", body: "abc"), running
  end

  def test_3_1_any_method_is_a_token_of_limited_length
    running = serve(SEEN, lint: false, supported_http_methods: :any)
    ["GET", "TRACE", "brew", "!", "A" * 32].each do |verb|
      assert_includes ask(running, request(verb)).body, verb.inspect
    end
    assert_refused 501, request("A" * 33), running
    assert_refused 400, request("G(T"), running
    assert_refused 501, "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", running
  end

  def test_3_2_a_request_has_one_host
    assert_refused 400, "GET / HTTP/1.1\r\n\r\n"
    assert_refused 400, "GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n"
    assert_refused 400, "GET / HTTP/1.1\r\nHost: a test\r\n\r\n"
    assert_equal 200, ask(serve, "GET / HTTP/1.0\r\n\r\n").status
  end

  def test_3_2_a_target_has_neither_blanks_nor_controls_nor_a_fragment
    ["/a b", "/a\x01", "/a\x7F", "/a#b", "/a\"", "a"].each do |target|
      assert_refused 400, "GET #{target} HTTP/1.1\r\nHost: a.test\r\n\r\n"
    end
  end

  def test_3_2_1_origin_form
    assert_equal %w[GET /a%20b/../c x=1?y a.test 80 a.test].inspect, seen("/a%20b/../c?x=1?y", "a.test")
  end

  def test_3_2_2_the_authority_of_the_absolute_form_takes_the_place_of_host
    assert_equal %w[GET /p q b.test 81 b.test:81].inspect, seen("http://b.test:81/p?q", "a.test:99")
    assert_equal ["GET", "/", "", "b.test", "80", "b.test"].inspect, seen("http://b.test", "a.test")
  end

  def test_3_2_2_host_is_needed_all_the_same
    assert_refused 400, "GET http://b.test/ HTTP/1.1\r\n\r\n"
  end

  def test_3_2_3_connect_is_not_served
    assert_refused 501, "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n"
    assert_refused 400, "CONNECT / HTTP/1.1\r\nHost: b.test\r\n\r\n"
  end

  def test_3_2_4_asterisk_form
    assert_equal ["OPTIONS", "*", "", "a.test", "80", "a.test"].inspect, seen("*", "a.test", verb: "OPTIONS")
    assert_refused 400, "GET * HTTP/1.1\r\nHost: a.test\r\n\r\n"
  end

  def test_3_3_the_uri_that_rack_makes_of_it
    running = serve { |env| [200, { "content-type" => "text/plain" }, [Rack::Request.new(env).url]] }
    assert_equal "http://a.test/x?y", ask(running, request("GET", "/x?y")).body
    absolute = "GET http://b.test:8080/x HTTP/1.1\r\nHost: a.test\r\n\r\n"
    assert_equal "http://b.test:8080/x", ask(running, absolute).body
  end
end
