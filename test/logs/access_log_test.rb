# frozen_string_literal: true

require "test_helper"
require "support/server_case"
require "json"

# The access log: its formats, and what no byte of a request can do to them.
class AccessLogTest < Minitest::Test
  include ServerCase

  ENV_OF_A_REQUEST = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "b=c",
                       "REQUEST_URI" => "/a?b=c", "SERVER_PROTOCOL" => "HTTP/1.1",
                       "REMOTE_ADDR" => "127.0.0.1" }.freeze
  TIME = %r{\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}}
  ISO = /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/
  BYTES = (0..255).map { |byte| byte.chr.b }.freeze
  # Where a client puts text: the keys of env that take it.
  PLACES = %w[REQUEST_METHOD PATH_INFO QUERY_STRING REQUEST_URI SERVER_PROTOCOL HTTP_USER_AGENT HTTP_REFERER HTTP_HOST
              REMOTE_USER REMOTE_ADDR].freeze

  # The line of one request.
  def line(format, status: 200, bytes: 5, log: {}, with: {}, **changes)
    io = StringIO.new(String.new(encoding: Encoding::BINARY))
    log = Abaca::Log.new(io, **log)
    env = ENV_OF_A_REQUEST.merge(changes.transform_keys(&:to_s))
    Abaca::AccessLog.new(log, Abaca::AccessLog.check(format), **with.slice(:worker, :ignored))
                    .record(env, status, bytes, 0.12346, *with.values_at(:headers, :account))
    assert log.release(30), "the log was not written"
    io.string
  end

  def test_pumas_format
    assert_match(%r{\A127\.0\.0\.1 - - \[#{TIME}\] "GET /a\?b=c HTTP/1\.1" 200 5 0\.1235\n\z}, line(:puma))
    assert_match(%r{\A10\.0\.0\.9 - bob \[.*"GET /x/a HTTP/1\.1" 304 0 0\.1235$},
                 line(:puma, status: 304, bytes: 0, REMOTE_ADDR: "10.0.0.9", HTTP_X_FORWARDED_FOR: "6.6.6.6",
                             REMOTE_USER: "bob", SCRIPT_NAME: "/x", QUERY_STRING: ""))
    assert_match(/\A- - - \[/, line(:puma, REMOTE_ADDR: nil))
    assert_match(/\A1\+2 - 7 \[/, line(:puma, REMOTE_ADDR: "1 2", REMOTE_USER: 7))
    assert_match(/" HIJACKED -1 0\.1235$/, line(:puma, status: nil))
  end

  def test_the_common_and_the_combined_format
    head = %r{127\.0\.0\.1 - bob \[#{TIME}\] "GET /a\?b=c HTTP/1\.1"}
    assert_match(/\A#{head} 200 5\n\z/, line(:common, REMOTE_USER: "bob"))
    assert_match(/\A#{head} - -\n\z/, line(:common, REMOTE_USER: "bob", status: nil, bytes: 0))
    assert_match(/\A#{head} 200 5 "-" "-"\n\z/, line(:combined, REMOTE_USER: "bob"))
    assert_match(%r{ 200 5 "http://x/" "curl \\x22 \\x5C"\n\z},
                 line(:combined, HTTP_REFERER: "http://x/", HTTP_USER_AGENT: 'curl " \\'))
    # As the client has sent it, whatever the app has made of it.
    assert_includes line(:common, REQUEST_URI: "//a/%41", PATH_INFO: "/other"), '"GET //a/%41 HTTP/1.1"'
  end

  def test_json
    object = JSON.parse(line(:json))
    assert_match ISO, object.delete("time")
    assert_equal({ "client.address" => "127.0.0.1", "http.request.method" => "GET", "url.path" => "/a",
                   "url.query" => "b=c", "network.protocol.version" => "1.1", "http.response.status_code" => 200,
                   "http.response.body.size" => 5, "duration_ms" => 123.46, "end" => "done" }, object)
    object = JSON.parse(line(:json, status: nil, bytes: 0, QUERY_STRING: "", HTTP_HOST: "a.test", REMOTE_USER: "bob",
                                    HTTP_USER_AGENT: "curl", HTTP_REFERER: "http://x/", log: { pid: true },
                                    with: { headers: { "X-Request-Id" => "r1" } }))
    assert_equal ["a.test", "bob", "curl", ["http://x/"], "r1", Process.pid, nil],
                 object.values_at("server.address", "user.name", "user_agent.original",
                                  "http.request.header.referer", "request_id", "pid", "http.response.status_code")
    refute object.key?("url.query")
  end

  # What took long, or has failed.
  def test_where_the_time_of_a_request_went
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    account = [:client, { queue: 0.0012, run: 0.0084, db: 0.5, lock: 0.0000004 }, trace]
    end_of_line = "queue_ms=1.2 run_ms=8.4 db_ms=500.0 lock_ms=0.0 worker=3 trace_id=#{trace} end=client\n"
    assert_match(/ 200 5 0\.1235 #{end_of_line}\z/, line(:puma, with: { account:, worker: 3 }))
    assert_match(/ 200 5 #{end_of_line}\z/, line(:common, with: { account:, worker: 3 }))
    assert_match(/ 200 5 "-" "-" #{end_of_line}\z/, line(:combined, with: { account:, worker: 3 }))
    assert_match(/ 0\.1235 end=app\n\z/, line(:puma, with: { account: [:app] }))
    object = JSON.parse(line(:json, with: { account:, worker: 0 }))
    assert_equal [1.2, 8.4, 500.0, 0.0, 0, trace, "client", nil],
                 object.values_at("queue_ms", "run_ms", "db_ms", "lock_ms", "worker", "trace_id", "end", "gvl_ms")
    assert_equal "done  #{trace}\n", line(->(r) { [r.ending, r.times, r.trace_id].join(" ") },
                                          HTTP_TRACEPARENT: "00-#{trace}-00f067aa0ba902b7-01")
  end

  def test_a_trace_is_one
    trace = "a" * 32
    parent = "b" * 16
    { "00-#{trace}-#{parent}-00" => trace, "cc-#{trace}-#{parent}-00-more" => trace, "00-#{trace}" => nil,
      "00-#{'0' * 32}-#{parent}-00" => nil, "ff-#{trace}-#{parent}-00" => nil,
      "00-#{trace}\n-#{parent}-00" => nil }.each do |field, id|
      assert_equal "#{id}\n", line(lambda(&:trace_id).>>(:to_s.to_proc), HTTP_TRACEPARENT: field)
    end
  end

  def test_paths_without_a_line
    with = { ignored: ["/up", "/health/*", "/a.c"] }
    { "/up" => true, "/health/" => true, "/health/a\nb" => true, "/ups" => false, "/x/up" => false, "/abc" => false,
      "/a.c" => true, "/up\n" => false, "/health" => false, "/\xff" => false }.each do |path, ignored|
      assert_equal ignored, line(:puma, with:, PATH_INFO: path).empty?, path.inspect
    end
  end

  def test_a_format_of_the_users
    assert_equal "GET /a b=c 200 5 0.12346 127.0.0.1 r1\n",
                 line(lambda { |r|
                   [r.method, r.path, r.query, r.status, r.bytes, r.seconds, r.client, r.request_id].join(" ")
                 }, with: { headers: { "x-request-id" => ["r1"] } })
    assert_equal "", line(->(request) { request.path if request.path == "/b" })
    assert_equal "one\\x0Atwo\\x1B\\xFF \xC3\xA9\n".b, line(->(_) { "one\ntwo\e\xFF \u00e9" })
    assert_equal "abaca: a line of the access log failed: no such key (KeyError)\n",
                 line(->(_) { raise KeyError, "no such key\nand more" })
  end

  # What reads the common formats does not expect anything in front of the address.
  def test_the_process_in_a_shared_log
    log = { pid: true }
    assert_match(/\A\[#{Process.pid}\] 127/, line(:puma, log:))
    assert_match(/\A127/, line(:combined, log:))
    assert_equal "own\n", line(->(_) { "own" }, log:)
    assert_equal "<127", line(:puma, log: { pid: true, formatter: ->(text) { "<#{text}>" } })[0, 4]
  end

  def test_no_byte_gets_into_a_line
    everything = ->(request) { request.env.values_at(*PLACES).join(" ") }
    BYTES.product([:puma, :common, :combined, :json, everything]) do |byte, format|
      changes = PLACES.to_h { |key| [key.to_sym, "x#{byte}y".b] }
      text = line(format, with: { headers: { "x-request-id" => "x#{byte}y".b } }, **changes).force_encoding(Encoding::UTF_8)
      assert text.end_with?("\n")
      allowed = format == everything ? /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/ : /[^ -~]/
      refute_match allowed, text.chomp, "#{format} #{byte.inspect}"
      unless format == :json
        assert_equal 6, text.scan(/(?<!\\)"/).size if format == :combined
        next
      end

      seen = JSON.parse(text).values_at("http.request.method", "url.path", "url.query", "user_agent.original",
                                        "server.address", "user.name", "client.address", "request_id").uniq
      assert_equal ["x#{byte}y".b.force_encoding(Encoding::UTF_8).scrub("\u{FFFD}")], seen
    end
  end

  # The same through the server, as far as it lets them through.
  def test_no_byte_of_the_wire_gets_into_a_line
    %i[combined json].each do |format|
      running = serve(lint: false, log_requests: true, access_log_format: format)
      BYTES.each do |byte|
        ask(running, request("GET", "/x#{byte}y?q#{byte}r"))
        ask(running, request("GET", "/", "User-Agent" => "x#{byte}y", "Referer" => "x#{byte}y"))
      end
      lines = running.log.lines
      assert_operator lines.size, :>, 256
      assert_equal lines.size, running.server.stats[:requests]
      lines.each { |text| refute_match(/[^ -~]/n, text.chomp) }
      lines.each { |text| JSON.parse(text) } if format == :json
    end
  end

  def test_through_the_server
    running = serve(lint: false, log_requests: true, access_log_format: :json) do |env|
      raise "boom" if env["PATH_INFO"] == "/boom"

      [200, { "content-type" => "text/plain", "x-request-id" => "r7" }, ["hello\n"]]
    end
    ask(running, request("HEAD", "/h?x=1", "User-Agent" => "t"))
    ask(running, request("GET", "/boom"))
    assert(eventually { running.log.lines.grep(/status_code/).size == 2 })
    head, boom = running.log.lines.grep(/status_code/).map { |text| JSON.parse(text) }
    assert_equal ["HEAD", "/h", "x=1", 200, 0, "r7", "t", "a.test"],
                 head.values_at("http.request.method", "url.path", "url.query", "http.response.status_code",
                                "http.response.body.size", "request_id", "user_agent.original", "server.address")
    assert_operator head.fetch("duration_ms"), :>, 0
    assert_equal [500, nil], boom.values_at("http.response.status_code", "request_id")
  end

  def test_what_a_format_may_be
    assert_equal :json, Abaca::Config.new({ access_log_format: "json" })[:access_log_format]
    error = assert_raises(Abaca::ConfigError) { Abaca::Config.new({ access_log_format: :short }) }
    assert_equal "access_log_format: :puma, :common, :combined, :json or a block is needed, not :short", error.message
    block = Abaca::Config::DSL.new.tap { |dsl| dsl.access_log_format(&:path) }
    assert_respond_to block.to_h.fetch(:access_log_format), :call
    assert_raises(ArgumentError) { Abaca::Config::DSL.new.access_log_format }
  end
end
