# frozen_string_literal: true

require "test_helper"
require "json"
require "abaca"
require "zlib"
require_relative "exposition"
require_relative "metrics_case"

# /metrics over the wire, of servers with workers: read by a strict parser of our own.
class MetricsTest < Minitest::Test
  include MetricsCase

  APP = <<~'RUBY'
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/fail" then raise "no"
      when "/pid" then [200, {}, ["#{Process.pid}\n"]]
      else
        env["abaca.route"] = env["QUERY_STRING"].empty? ? "/things/:id" : "/q\"\\\n#{env["QUERY_STRING"]}"
        [env["PATH_INFO"] == "/missing" ? 404 : 200, {}, ["thing\n"]]
      end
    end)
  RUBY

  # Requests wait for one to /go each.
  HOLDS = <<~RUBY
    held = Thread::Queue.new
    run(lambda do |env|
      env["PATH_INFO"] == "/go" ? held << 1 : held.pop
      [200, {}, ["1"]]
    end)
  RUBY

  def scrape = Exposition.new(fetch.last)

  def test_what_requests_did
    command = run_cluster(APP, config: config(2))
    3.times { request(command, "/things/1") }
    request(command, "/missing")
    request(command, "/fail")
    request(command, "/pid")
    found = nil
    serving = -> { found["abaca_workers", state: "serving"] }
    assert(eventually { (found = scrape).sum("#{DURATION}_count") == 6 && serving.call == 2 })
    count = ->(**labels) { found["#{DURATION}_count", http_request_method: "GET", **labels] }
    assert_equal 3, count.call(http_response_status_code: "200", http_route: "/things/:id")
    assert_equal 1, count.call(http_response_status_code: "404", http_route: "/things/:id")
    assert_equal 1, count.call(http_response_status_code: "500", error_type: "500")
    assert_equal 1, count.call(http_response_status_code: "200")
    assert_equal 6, found["abaca_requests_total"]
    assert_operator found["abaca_request_state_seconds_total", state: "run", route: "/things/:id"], :>, 0
    assert_in_delta found.sum("#{DURATION}_sum"), found.sum("abaca_request_state_seconds_total"), 0.001
    assert_equal [0] * 6, found.samples["abaca_worker_restarts_total"].values
    %w[abaca_stalls_total abaca_stall_seconds_total].each { |name| assert_equal 0, found[name], name }
    assert_equal 0, found["http_server_active_requests", http_request_method: "GET"]
    assert_equal({ loop: "main" }, found.samples["abaca_loop_lag_seconds_count"].keys.first)
    assert_equal 0, found["abaca_loop_seconds_total", worker: "0", state: "stalled"]
    assert_equal({ version: Abaca::VERSION, ruby: RUBY_VERSION }, found.samples["abaca_build_info"].keys.first)
    need_platform(:proc)
    assert_equal %w[0 1 master watch], found.samples["process_resident_memory_bytes"].keys.map { |of| of[:worker] }
  end

  # In the app and in the queue; a method that was seen stays.
  def test_requests_in_flight
    command = run_cluster(HOLDS, config: config(1, "silence_single_worker_warning\nmax_fibers 4"), count: 1)
    verbs = %w[GET POST POST]
    clients = verbs.map do |verb|
      connect(command.port).write("#{verb} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
    end
    active = lambda do |*names|
      found = scrape.samples["http_server_active_requests"]
      names.map { |name| found[{ http_request_method: name }] }
    end
    assert(eventually { active.call("GET", "POST") == [1, 2] })
    3.times { request(command, "/go") }
    clients.each { |client| assert_equal "1", client.read.body }
    assert(eventually { active.call("GET", "POST", "PUT") == [0, 0, nil] })
  end

  def test_errors_by_status
    command = run_cluster(APP, config: config(1, "silence_single_worker_warning"), count: 1)
    assert_equal 0, scrape["abaca_errors_total", status: "400"]
    ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/3.1\r\nHost: a\r\n\r\n",
     "GET /#{"a" * 100_000} HTTP/1.1\r\nHost: a\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"].each { |text| connect(command.port).call(text) }
    found = nil
    assert(eventually { (found = scrape).sum("abaca_errors_total") == 5 })
    assert_equal({ "400" => 2, "505" => 1, "414" => 1, "417" => 1 },
                 found.samples["abaca_errors_total"].select { |_, count| count.positive? }
                      .transform_keys { |labels| labels[:status] })
  end

  # What an app puts into its env is quoted; more routes than there are places are one.
  def test_hostile_routes_paths_and_methods
    command = run_cluster(APP, config: config(1, "silence_single_worker_warning\nmetrics_routes 4"), count: 1)
    20.times { |i| request(command, "/things/1?#{i}") }
    request(command, "/#{'a' * 4000}%22%0A%5C")
    request(command, "/x", verb: "PROPFIND")
    found = nil
    assert(eventually { (found = scrape).sum("#{DURATION}_count") == 22 })
    labels = found.samples["#{DURATION}_count"].keys
    assert_equal ["/q\"\\\n0", "/q\"\\\n1", "/q\"\\\n2", "/q\"\\\n3", "_OTHER"],
                 labels.map { |of| of[:http_route] }.uniq.sort
    assert_equal 18, found.samples["#{DURATION}_count"].sum { |of, count| of[:http_route] == "_OTHER" ? count : 0 }
    assert_equal %w[GET _OTHER], labels.map { |of| of[:http_request_method] }.uniq.sort
    assert_operator found["abaca_routes_dropped_total"], :>=, 18
    refute_includes fetch.last, "aaaaaaaa"
  end

  # METRICS_FLOOD=100000 is the long form.
  def test_a_flood_of_paths_routes_and_methods
    need_platform(:memfd) # in a file there is room for fewer series
    options = "supported_http_methods :any\nsilence_single_worker_warning"
    command = run_cluster(APP, config: config(1, options), count: 1)
    count = Integer(ENV.fetch("METRICS_FLOOD", 2000))
    (0...count).each_slice(100) do |some|
      client = connect(command.port)
      client.write(some.map { |i| "M#{i} /p#{i}?#{i} HTTP/1.1\r\nHost: a.test\r\n\r\n" }.join)
      some.size.times { client.read }
      client.close
    end
    found = nil
    assert(eventually { (found = scrape).sum("#{DURATION}_count") == count })
    labels = found.samples["#{DURATION}_count"].keys
    assert_equal 65, labels.size
    assert_equal ["_OTHER"], labels.map { |of| of[:http_request_method] }.uniq
    assert_equal count - 64, found["abaca_routes_dropped_total"]
    assert_operator fetch.last.bytesize, :<, 300_000
  end

  # What they spoil is the percentiles. All else has them.
  def test_requests_that_are_ignored
    command = run_cluster(APP, config: config(1, <<~RUBY), count: 1)
      silence_single_worker_warning
      metrics_ignore "/up", "/health/*"
    RUBY
    %w[/up /up?x /health /health/db /%75p /things/1 /upper].each { |path| request(command, path) }
    found = nil
    assert(eventually { (found = scrape)["abaca_requests_total"] == 7 && found.sum("#{DURATION}_count") == 2 })
    assert_operator found.sum("abaca_request_state_seconds_total"), :>, found.sum("#{DURATION}_sum")
  end

  # Nobody of those that serve takes part.
  def test_while_all_are_stopped
    command = run_cluster(APP, config: config(2))
    4.times { request(command, "/things/1") }
    assert(eventually { scrape.sum("#{DURATION}_count") == 4 })
    stopped = [command.pid, *booted(command).map(&:pid)]
    stopped.each { |pid| Process.kill(:STOP, pid) }
    found = scrape
    assert_equal 4, found.sum("#{DURATION}_count")
    age = found.samples["abaca_worker_heartbeat_age_seconds"].values.max
    assert(eventually { scrape.samples["abaca_worker_heartbeat_age_seconds"].values.min > age })
  ensure
    stopped&.each { |pid| Process.kill(:CONT, pid) }
  end

  def test_the_port_has_nothing_else
    command = run_cluster(APP, config: config(1, "silence_single_worker_warning"), count: 1)
    status, fields, body = fetch
    assert_equal [200, "text/plain; version=0.0.4; charset=utf-8"], [status, fields["Content-Type"]]
    assert_equal body.bytesize.to_s, fields["Content-Length"]
    assert_equal [200, ""], fetch(verb: "HEAD").values_at(0, 2)
    assert_equal 405, fetch(verb: "POST").first
    %w[/ /stats /stop /workers /open /metrics/x].each { |path| assert_equal 404, fetch(path).first, path }
    assert_equal 403, fetch(fields: { "Host" => "evil.example" }).first
    assert_equal 403, fetch(fields: { "Origin" => "http://evil.example" }).first
    assert alive?(command.pid)
    assert_raises(SystemCallError) { TCPSocket.new("127.0.0.2", @port) }
  end

  def test_compressed
    run_cluster(APP, config: config(1, "silence_single_worker_warning"), count: 1)
    _, fields, body = fetch(fields: { "Accept-Encoding" => "br, gzip;q=0.5" })
    assert_equal ["gzip", "Accept, Accept-Encoding"], fields.values_at("Content-Encoding", "Vary")
    assert_equal 1, Exposition.new(Zlib.gunzip(body))["abaca_workers", state: "serving"]
    ["", "identity", "gzip;q=0", "br", "*;q=0"].each do |field|
      assert_nil fetch(fields: { "Accept-Encoding" => field })[1]["Content-Encoding"], field
    end
  end

  # Those of other kernels, and of features that are not in use here, are named there, too.
  def test_each_family_is_documented
    command = run_cluster(APP, config: config(2), count: 2)
    request(command, "/things/1")
    page = File.read(File.expand_path("../../docs/metrics.md", __dir__))
    named = page.scan(/^\| (`[^|]+) \| (?:counter|gauge|histogram|) ?\|/).join.scan(/`(\w+)`/).flatten
    assert_empty scrape.types.keys - named
    assert_equal named.uniq, named
  end

  # On the control server, a token is needed; that for looks is enough.
  def test_on_the_control_server
    control = 'activate_control_app "unix://control.sock", auth_token: "secret", read_token: "look"'
    command = run_abaca(APP, config: "#{control}\n").tap { |one| one.wait_for(/Use Ctrl-C/) }
    request(command, "/things/1")
    ask = lambda do |token|
      fetch(socket: UNIXSocket.new("#{@directory}/control.sock"),
            fields: token ? { "Authorization" => "Bearer #{token}" } : {})
    end
    assert_equal [403, "Invalid auth token"], ask.call(nil).values_at(0, 2)
    assert_equal 403, ask.call("wrong").first
    assert_equal 200, ask.call("secret").first
    assert(eventually { Exposition.new(ask.call("look").last).sum("#{DURATION}_count") == 1 })
  end

  def test_why_workers_are_replaced
    control = 'activate_control_app "unix://control.sock", auth_token: "secret"'
    command = run_cluster(APP, config: config(2, "#{control}\npreload_app! false"), count: 2)
    restarts = -> { scrape.samples["abaca_worker_restarts_total"].transform_keys { |labels| labels[:reason] } }
    reached = lambda do |reason, count|
      assert(eventually { restarts.call[reason] == count && scrape["abaca_workers", state: "serving"] == 2 }, reason)
    end
    Process.kill(:KILL, running(command).first.pid)
    reached.call("death", 1)
    command.signal(:USR1)
    reached.call("restart", 2)
    { "drain" => "workers/0/drain", "recycle" => "workers/1/recycle" }.each do |reason, path|
      socket = UNIXSocket.new("#{@directory}/control.sock")
      assert_equal 200, fetch("/#{path}", verb: "POST", fields: { "Authorization" => "Bearer secret" }, socket:).first
      reached.call(reason, 1)
    end
    assert_equal({ "death" => 1, "timeout" => 0, "restart" => 2, "refork" => 0, "recycle" => 1, "drain" => 1 },
                 restarts.call)
    command.signal(:TTOU) # one is too much, and nobody follows
    assert(eventually { scrape["abaca_workers", state: "serving"] == 1 })
    assert_equal 5, restarts.call.values.sum
  end

  # Who scrapes meanwhile waits, and is not refused.
  def test_a_hot_restart
    command = run_abaca(APP, config: config(0)).tap { |one| one.wait_for(/Use Ctrl-C/) }
    command.signal(:USR2)
    scrapes = 0
    until command.text.scan("Use Ctrl-C").size == 2
      scrape
      scrapes += 1
    end
    assert_operator scrapes, :>, 0
    assert_equal 1, scrape["abaca_workers", state: "serving"]
  end
end
