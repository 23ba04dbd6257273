# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# The Rack env, key by key (Rack SPEC, "The Environment"; RFC 3875 4.1).
class RackEnvTest < Minitest::Test
  include ServerCase

  # An app that keeps the env it was given, without Rack::Lint's wrappers.
  class Keep
    attr_reader :seen

    def initialize
      @seen = Queue.new
    end

    def call(env)
      @seen << env
      [200, { "content-type" => "text/plain" }, ["kept"]]
    end
  end

  def setup
    super
    @keep = Keep.new
  end

  # The env that the request's bytes lead to.
  def env_of(bytes, **options)
    @served ||= serve(@keep, lint: false, **options)
    response = ask(@served, bytes)
    assert_equal 200, response.status
    @seen = @keep.seen.pop
  end

  def get(lines, target: "/", version: "1.1", host: "a.test")
    env_of("GET #{target} HTTP/#{version}\r\n#{"Host: #{host}\r\n" if host}#{lines}\r\n")
  end

  def test_lint_accepts_requests_of_all_kinds
    running = serve(->(env) { [200, { "content-type" => "text/plain" }, [env["rack.input"]&.read.to_s]] })
    [
      GET, request("HEAD"), request("GET", "/a%20b?c=d&e"), request("POST", body: "x"),
      request("POST", "/", "Transfer-Encoding" => "chunked") + chunked("x"), request("GET", version: "1.0"),
      request("DELETE", "/x"), request("PATCH", body: "y"), request("QUERY", body: "z"), request("PROPFIND", "/"),
      request("POST", "/", { "Content-Type" => "text/plain; charset=utf-8" }, body: "ä"),
      "GET / HTTP/1.0\r\n\r\n", "GET http://b.test:81/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "GET //double HTTP/1.1\r\nHost: a.test:80\r\n\r\n"
    ].push(*(request("OPTIONS", "*") if Rack.release >= "3")).each do |bytes|
      response = ask(running, bytes)
      assert_equal 200, response.status, "#{bytes.inspect}: #{running.log}"
    end
  end

  def test_the_request_line
    env = get("", target: "/a/b%20c%2Fd//e?x=%41&y=1?z")
    assert_equal "GET", env["REQUEST_METHOD"]
    assert_equal "", env["SCRIPT_NAME"]
    assert_equal ["/a/b%20c%2Fd//e"] * 2, env.values_at("PATH_INFO", "REQUEST_PATH")
    assert_equal "x=%41&y=1?z", env["QUERY_STRING"]
    assert_equal "/a/b%20c%2Fd//e?x=%41&y=1?z", env["REQUEST_URI"]
    assert_equal "HTTP/1.1", env["SERVER_PROTOCOL"]
    assert_equal "", get("")["QUERY_STRING"]
    assert_equal "", get("", target: "/a?")["QUERY_STRING"]
    assert_equal "/a?", @seen["REQUEST_URI"]
  end

  def test_the_protocol_is_that_of_the_request
    assert_equal "HTTP/1.0", get("", version: "1.0")["SERVER_PROTOCOL"]
    assert_equal "HTTP/1.0", @seen["HTTP_VERSION"] if @seen.key?("HTTP_VERSION")
  end

  def test_the_server_and_port_come_from_host
    {
      "a.test" => ["a.test", "80"], "a.test:8080" => ["a.test", "8080"], "A.Test:80" => ["A.Test", "80"],
      "127.0.0.1:9292" => ["127.0.0.1", "9292"], "[::1]" => ["[::1]", "80"],
      "[2001:db8::1]:81" => ["[2001:db8::1]", "81"]
    }.each do |host, (name, port)|
      env = get("", host: host)
      assert_equal [name, port, host], env.values_at("SERVER_NAME", "SERVER_PORT", "HTTP_HOST")
    end
  end

  # RFC 3986 3.2.3: no port, and the default one.
  def test_a_host_with_an_empty_port
    env = get("", host: "a.test:")
    assert_equal %w[a.test 80], env.values_at("SERVER_NAME", "SERVER_PORT")
    assert_includes %w[a.test a.test:], env["HTTP_HOST"]
  end

  # Without Host, what the socket knows.
  def test_the_server_and_port_of_1_0_without_host
    env = get("", version: "1.0", host: nil)
    refute env.key?("HTTP_HOST")
    refute_empty env["SERVER_NAME"]
    assert_equal @served.port.to_s, env["SERVER_PORT"]
  end

  # RFC 9112 3.2.2: the target's authority wins over Host.
  def test_the_absolute_form
    env = get("", target: "http://b.test:81/x/y?z", host: "other.test")
    assert_equal ["b.test", "81", "/x/y", "z"], env.values_at("SERVER_NAME", "SERVER_PORT", "PATH_INFO", "QUERY_STRING")
    assert_equal "b.test:81", env["HTTP_HOST"]
    assert_equal ["http://b.test:81/x/y?z", "/x/y"], env.values_at("REQUEST_URI", "REQUEST_PATH")
    assert_equal ["/", ""], get("", target: "http://b.test").values_at("PATH_INFO", "QUERY_STRING")
    assert_equal ["/", "q"], get("", target: "http://b.test?q").values_at("PATH_INFO", "QUERY_STRING")
  end

  def test_the_asterisk_form
    env = env_of("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert_equal ["OPTIONS", "*", ""], env.values_at("REQUEST_METHOD", "PATH_INFO", "SCRIPT_NAME")
  end

  def test_the_peer
    assert_equal "127.0.0.1", get("X-Forwarded-For: 6.6.6.6\r\n")["REMOTE_ADDR"]
  end

  def test_rack_keys
    env = get("")
    assert_equal "http", env["rack.url_scheme"]
    assert_respond_to env["rack.errors"], :puts
    assert_respond_to env["rack.errors"], :write
    assert_respond_to env["rack.errors"], :flush
    assert_includes [true, false], env["rack.multithread"] if env.key?("rack.multithread")
    assert_includes [true, false], env["rack.multiprocess"] if env.key?("rack.multiprocess")
    assert_equal false, env["rack.run_once"] if env.key?("rack.run_once")
    return if Rack.release >= "3"

    assert_kind_of Array, env["rack.version"]
    %w[rack.multithread rack.multiprocess rack.run_once rack.input].each { |key| assert env.key?(key), key }
  end

  def test_content_type_and_length_stand_without_http
    env = env_of(request("POST", "/", { "Content-Type" => "text/x" }, body: "12345"))
    assert_equal ["text/x", "5"], env.values_at("CONTENT_TYPE", "CONTENT_LENGTH")
    refute env.key?("HTTP_CONTENT_TYPE")
    refute env.key?("HTTP_CONTENT_LENGTH")
    env = get("")
    refute env.key?("CONTENT_LENGTH")
    refute env.key?("CONTENT_TYPE")
  end

  # A body in chunks has no length to tell.
  def test_a_chunked_body
    env = env_of(request("POST", "/", "Transfer-Encoding" => "chunked") + chunked("abc"))
    assert_includes [nil, "3"], env["CONTENT_LENGTH"]
  end

  def test_fields_become_http_keys
    env = get("X-One: 1\r\naccept: */*\r\nX-EMPTY:\r\nx-Sp:  \t a  b\t \r\nX.Dot!: d\r\n")
    assert_equal ["1", "*/*", "", "a  b"], env.values_at("HTTP_X_ONE", "HTTP_ACCEPT", "HTTP_X_EMPTY", "HTTP_X_SP")
    assert_equal "d", env["HTTP_X.DOT!"]
  end

  # Few fields and many, by turns, so that what a request leaves for the next one shows.
  def test_any_number_of_fields
    bare = get("").size
    [1, 2, 3, 4, 5, 6, 30, 31, 32, 33, 34, 60, 100, 2, 0, 40].each_with_index do |count, turn|
      fields = (1..count).to_h { |i| ["X-F#{i}", "#{turn} and #{i}"] }
      lines = fields.map { |name, value| "#{name}: #{value}\r\n" }.join
      env = get(lines, host: "h#{turn}.test:8#{turn}", target: "/#{turn}")
      assert_equal bare + count, env.size
      assert_equal env.size, env.keys.grep(String).uniq.size
      fields.each { |name, value| assert_equal value, env["HTTP_#{name.tr("-", "_")}"] }
      assert_equal ["/#{turn}", "h#{turn}.test", "8#{turn}", "127.0.0.1"],
                   env.values_at("PATH_INFO", "SERVER_NAME", "SERVER_PORT", "REMOTE_ADDR")
      assert_equal "own", env.merge("X_OWN" => "own")["X_OWN"]
    end
  end

  def test_repeated_fields_are_joined
    env = get("X-A: 1\r\nAccept: a\r\nx-a: 2\r\nACCEPT: b\r\nX-A: 3\r\nCookie: a=1\r\ncookie: b=2\r\n")
    assert_equal "1, 2, 3", env["HTTP_X_A"]
    assert_equal "a, b", env["HTTP_ACCEPT"]
    assert_equal "a=1; b=2", env["HTTP_COOKIE"]
  end

  # X_A and X-A would be the same key: the spelling with the underscore never wins, in either order.
  def test_underscores_never_clobber
    ["X-A: good\r\nX_A: evil\r\n", "X_A: evil\r\nX-A: good\r\n",
     "X_A: evil\r\nX-A: good\r\nX_A: evil\r\n"].each do |lines|
      assert_equal "good", get(lines)["HTTP_X_A"]
    end
    assert_equal "good, too", get("X-A: good\r\nX_A: evil\r\nX-A: too\r\n")["HTTP_X_A"]
  end

  def test_underscore_spellings_of_what_the_server_reads
    env = env_of("POST / HTTP/1.1\r\nHost: a.test\r\nContent_Length: 99\r\nContent-Length: 1\r\n" \
                 "Transfer_Encoding: chunked\r\nContent_Type: evil/x\r\n\r\nx")
    assert_equal "1", env["CONTENT_LENGTH"]
    refute_equal "evil/x", env["CONTENT_TYPE"]
    assert_equal "a.test", get("Host_: x\r\n")["HTTP_HOST"]
  end

  # No field of the client may pass for something that the server says.
  def test_fields_cannot_reach_other_keys
    env = get("Rack.Input: x\r\nRemote-Addr: 6.6.6.6\r\nServer-Name: evil\r\nPath-Info: /evil\r\nHttps: on\r\n")
    assert_equal ["127.0.0.1", "a.test", "/"], env.values_at("REMOTE_ADDR", "SERVER_NAME", "PATH_INFO")
    refute env.key?("HTTPS")
    assert_equal "http", env["rack.url_scheme"]
  end

  # CVE-2016-5385: programs take HTTP_PROXY for the setting of that name.
  def test_the_proxy_field
    assert_includes [nil, "http://evil/"], get("Proxy: http://evil/\r\n")["HTTP_PROXY"]
    refute_equal "http://evil/", ENV.fetch("HTTP_PROXY", nil)
  end

  def test_bytes_above_127
    env = get("X-Latin: caf\xE9\r\nX-Utf: caf\u00e9\r\n".b, target: "/caf\xC3\xA9?\xFF".b)
    assert_equal "caf\xE9".b, env["HTTP_X_LATIN"].b
    assert_equal "/caf\xC3\xA9".b, env["PATH_INFO"].b
    assert_equal "\xFF".b, env["QUERY_STRING"].b
  end

  def test_all_values_of_cgi_keys_are_strings_in_one_encoding
    env = env_of(request("POST", "/p?q", { "X-A" => "b", "Content-Type" => "c/d" }, body: "e"))
    env.each do |key, value|
      assert_kind_of String, key
      assert_kind_of String, value, key unless key.include?(".")
    end
    encodings = %w[PATH_INFO QUERY_STRING REQUEST_URI HTTP_X_A CONTENT_TYPE].map { |key| env[key].encoding }.uniq
    assert_equal 1, encodings.size, encodings.inspect
  end

  # What one request does to its env does not show in the next, even on the same connection.
  def test_values_are_fresh_after_mutation
    seen = Queue.new
    running = serve(lambda do |env|
      seen << [env.class, env.key?("leak")]
      env["leak"] = true
      seen << %w[SCRIPT_NAME SERVER_NAME rack.url_scheme REQUEST_METHOD HTTP_HOST SERVER_PROTOCOL].map do |key|
        env[key].dup
      end
      env.each_value { |value| value << "!" if value.is_a?(String) && !value.frozen? }
      env.clear
      [200, { "content-type" => "text/plain" }, []]
    end, lint: false)
    client = connect(running)
    3.times { assert_equal 200, client.call(GET).status }
    identities, values = Array.new(6) { seen.pop }.each_slice(2).to_a.transpose
    assert_equal [false] * 3, identities.map(&:last)
    assert_equal 1, values.uniq.size, values.inspect
  end

  def test_the_env_can_be_used_as_a_hash
    env = get("X-A: 1\r\n")
    refute env.frozen?
    refute env.compare_by_identity?
    assert_equal "1", env[String.new("HTTP_X_A")]
    assert_nil env.default
    assert_nil env["NOT_THERE"]
    assert_equal env["HTTP_X_A"], env.dup["HTTP_X_A"]
  end

  def test_every_method_of_the_registry_reaches_the_app
    %w[GET POST PUT DELETE PATCH OPTIONS PROPFIND REPORT MKCALENDAR QUERY VERSION-CONTROL].each do |verb|
      assert_equal verb, env_of(request(verb))["REQUEST_METHOD"]
    end
  end
end
