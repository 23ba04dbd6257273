# frozen_string_literal: true

require "json"
require_relative "../test_helper"
require_relative "../support/sight_case"

# How a request has ended, and where its time went: in its line of the access log, and in the row that is kept of it.
class EndsTest < Minitest::Test
  include SightCase

  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

  # Requests that end in each way.
  class App < SightCase::App
    def call(env)
      case env["PATH_INFO"]
      when "/raise" then raise "no"
      when "/500" then [500, {}, ["sorry\n"]]
      when "/broken" then [200, {}, Broken.new]
      when "/short" then [200, { "content-length" => "9" }, ["short"]]
      when "/gone" then gone(env)
      when "/forever" then Kernel.sleep(30)
      else super
      end
    end

    # Its body raises behind the head.
    class Broken
      def each
        yield "x"
        raise "broken"
      end
    end

    private

    def gone(_env)
      Kernel.sleep(0.1)
      [200, {}, Endless.new]
    end

    # Whoever reads it leaves.
    class Endless
      def each = loop { yield "x" * 100_000 }
    end

    def late(_env) = Kernel.sleep(5)

    # What has waited could go on, but for this.
    def unlock(env) = (@lock << "x") && stall(env)

    # Two fibers of its own, one of which ends while the request goes on.
    def children(_env)
      Fiber.schedule { @lock.pop }
      Fiber.schedule { Kernel.sleep(0.01) }
      @lock.pop
    end
  end

  ENDS = { "/" => "done", "/500" => "done", "/raise" => "app", "/broken" => "app", "/short" => "app",
           "/gone" => "client", "/late" => "deadline", "/forever" => "shutdown" }.freeze
  FAILED = ENDS.keys - ["/"]

  %w[fiber thread guest:PlainScheduler].each do |mode|
    define_method("test_each_end_in_mode_#{mode.tr(':', '_')}") { check_ends(mode) }
  end

  def test_json_has_the_times_of_each_request
    with_log(access_log_format: :json) do |options, lines|
      serve("fiber", **options) do |server|
        began = now
        server.ask("/sleep", "traceparent: 00-#{TRACE}-00f067aa0ba902b7-01")
        limit = (now - began) * 1_000
        line = lines.call("/sleep")
        assert_equal ["done", TRACE, nil], line.values_at("end", "trace_id", "worker")
        assert_includes 140..limit, line["sleep_ms"]
        sum = line.select { |key, _| key.end_with?("_ms") && key != "duration_ms" }.values.sum
        assert_in_delta sum, line["duration_ms"] + line["queue_ms"], sum / 50
      end
    end
  end

  def test_a_collection_is_told_apart_in_the_line_and_the_waits
    with_log(access_log_format: :json, slow_after: 0.001) do |options, lines|
      serve("fiber", **options) do |server|
        server.ask("/collect")
        assert_operator lines.call("/collect")["gc_ms"], :>, 4
        kept = server.slot.kept.find { |one| one[:path] == "/collect" }
        assert_operator kept[:waits].filter_map { |_, time, state| time if state == :gc }.sum, :>, 0.004, kept
      end
    end
  end

  def test_fibers_that_a_request_has_started
    serve("fiber") do |server|
      server.begin("/children")
      assert server.row_in(:lock, "/children")
      Waits.eventually { server.slot.requests.first[:children] == 1 }
      assert_equal 1, server.slot.requests.first[:children]
      server.finish("/children")
    end
  end

  def test_a_client_behind_a_proxy_that_is_trusted
    serve("fiber", trusted_proxies: ["127.0.0.1"]) do |server|
      Thread.new { server.ask("/sleep", "X-Forwarded-For: 6.6.6.6, 203.0.113.9") }
      assert server.row_in(:sleep, "/sleep")
      assert_match(/\A203\.0\.113\.9/, server.slot.requests.first[:peer])
    end
  end

  def test_connections_of_a_client
    serve("fiber") do |server|
      sockets = Array.new(3) { server.connect.tap { |one| one.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n") } }
      sockets.each { |one| one.readpartial(1000) }
      open = -> { server.slot.clients.find { |one| one[:address] == "127.0.0.1" }&.fetch(:open) }
      assert Waits.eventually { open.call == 3 }, "#{open.call} of 3"
      sockets.pop.close
      assert Waits.eventually { open.call == 2 }, "#{open.call} of 2"
      sockets.each(&:close)
    end
  end

  def test_a_stall_counts_for_its_route
    serve("fiber", stall_after: 20, stall_report: 100) do |server|
      began = now
      server.ask("/stall")
      limit = now - began
      server.ask("/")
      route = server.slot.routes.find { |one| one[:route] == "/the/route" }
      assert_equal 1, route[:stalls], route
      assert_includes 0.4..limit, route[:stall_time]
    end
  end

  # What waits meanwhile is shown with the stall behind it.
  def test_a_stall_stands_behind_what_has_waited
    serve("fiber", stall_after: 20, stall_report: 100, spare_loops: 0, slow_after: 0.1) do |server|
      server.begin("/lock")
      assert server.row_in(:lock, "/lock")
      server.ask("/unlock")
      server.finish("/lock")
      kept = nil
      Waits.eventually { kept = server.slot.kept.find { |one| one[:path] == "/lock" } }
      assert(Waits.eventually { server.slot.events.any? { |event| event[:kind] == :stall } }, server.slot.events)
      stalls = Abaca::Sight.stalls(server.slot.events, kept, kept[:ended_at])
      assert_equal 1, stalls.size, server.slot.events
      assert_operator stalls[0][:time], :>, 0.3
      assert_match(%r{\A/the/route}, stalls[0][:text])
      lines = Abaca::Sight::Waterfall.new(kept, ended: true, stalls:).lines
      assert_match(/#*:::+/, lines.join("\n"))
      assert_includes lines, "others that have kept its loop (:)"
    end
  end

  private

  def check_ends(mode)
    with_log(request_timeouts: { "/late" => 1 }, shutdown_timeout: 1, cancel_on_disconnect: false) do |options, lines|
      serve(mode, **options) do |server|
        (ENDS.keys - ["/gone", "/forever"]).each { |path| server.ask(path) }
        leave(server, "/gone")
        FAILED.each { |path| check_line(lines, path) unless path == "/forever" }
        forever = Thread.new { server.ask("/forever") }
        Waits.eventually { server.slot.requests.any? { |one| one[:path] == "/forever" } }
        Process.kill(:TERM, server.pid)
        check_line(lines, "/forever")
        forever.join
        assert_kept(server)
      end
    end
  end

  def check_line(lines, path)
    line = lines.call(path)
    assert_match(/ end=#{ENDS[path]}$/, line, path) if ENDS[path] != "done" || path == "/500"
    assert_match(/ run_ms=[\d.]+/, line, path)
  end

  def assert_kept(server)
    kept = server.slot.kept.select { |one| one[:reasons].include?(:failed) }.to_h { |one| [one[:path], one[:end].to_s] }
    assert_equal ENDS.slice(*FAILED), ENDS.slice(*FAILED).merge(kept).slice(*FAILED)
    assert_equal FAILED.sort, kept.keys.sort
  end

  def leave(server, path)
    socket = server.connect
    socket.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    socket.readpartial(1)
    socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
    socket.close
  end

  # Options of a server that writes its access log into a file, and what finds the line of a path there.
  def with_log(**options)
    Dir.mktmpdir do |dir|
      file = File.join(dir, "log")
      json = options[:access_log_format] == :json
      find = lambda do |path|
        found = nil
        Waits.eventually do
          found = File.exist?(file) && File.readlines(file, chomp: true).find { |line| line.include?(path) }
        end
        found or flunk("no line of #{path}: #{File.read(file)}")
        json ? JSON.parse(found) : found
      end
      yield({ log: Abaca::Log.new(File.open(file, "a"), StringIO.new), log_requests: true, **options }, find)
    end
  end
end
