# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/computing"
require_relative "../support/sight_case"

# A call keeps its row from request to request: of the one before nothing shows, whatever that has left.
class ReuseTest < Minitest::Test
  include SightCase

  MODES = %w[fiber thread routed guest:PlainScheduler].freeze
  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
  TRACED = "traceparent: 00-#{TRACE}-00f067aa0ba902b7-01".freeze
  LONG = "/#{'long/' * 40}".freeze
  BEFORE = %w[/sleep /fail /failed_later /written /hijack /none /stall /children].freeze

  # An app whose path is the name of what it does.
  class App < SightCase::App
    def call(env)
      case env["PATH_INFO"]
      when "/written" then [201, {}, ->(stream) { stream.write("x") && stream.close }]
      when "/none" then [204, {}, []]
      when "/broken" then [200, {}, Enumerator.new { |pieces| raise(IOError, "broken") if pieces << "x" }]
      when "/short" then [200, { "content-length" => "9" }, ["short"]]
      when LONG then [404, { "abaca.route" => "x" }, ["no\n"]]
      else super
      end
    end

    private

    def fail(_env) = raise("at once")

    def failed_later(_env)
      Kernel.sleep(0.02)
      raise "after a wait"
    end

    def hijack(env)
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\n\r\nmine")
      io.close
    end

    def children(_env)
      return Thread.new { Kernel.sleep(0.01) }.join unless Fiber.current_scheduler

      Fiber.schedule { Kernel.sleep(0.01) }
      Kernel.sleep(0.02)
    end

    def spin(_env) = 200.times { Computing::STEP.call(1_000) }
  end

  MODES.each do |mode|
    define_method("test_nothing_of_the_former_request_shows_in_mode_#{mode.tr(':', '_')}") do
      serve(mode, slow_after: 0.1, stall_after: 0.05, server_timing: false) do |server|
        check_spin(server, mode, "the first one")
        BEFORE.each { |path| check_after(server, mode, path) { server.ask(path, TRACED) } }
        check_after(server, mode, "a long path") { server.ask(LONG) }
        check_after(server, mode, "another method") { server.ask("/", method: "OPTIONS") }
        check_after(server, mode, "a quick one") { server.ask("/") }
      end
    end
  end

  # A response that breaks off is not plain, however quick it was.
  def test_what_has_failed_without_a_wait_is_kept
    %w[fiber thread].each do |mode|
      serve(mode, server_timing: false) do |server|
        %w[/broken /short].each do |path|
          server.ask(path)
          assert Waits.eventually { server.slot.kept.any? { |one| one[:path] == path } }, "#{mode} #{path}"
          assert_equal [:app, [:failed]], server.slot.kept.first.values_at(:end, :reasons), "#{mode} #{path}"
        end
      end
    end
  end

  # Whether it is taken from a plain row or another one, a request that is more than plain begins anew as well.
  def test_nothing_of_a_plain_request_shows_in_another
    serve("fiber", server_timing: false) do |server|
      server.ask("/")
      server.ask("/sleep", TRACED)
      server.begin("/lock")
      row = server.row_in(:lock)
      assert_equal ["/lock", 0], row.values_at(:path, :status)
      shown = server.slot.requests(waits: true).first
      assert_equal [nil, nil, 0, []], shown.values_at(:trace, :route, :children, :waits)
      server.finish("/lock")
    end
  end

  # More requests at once than rows: those without one are answered, and rows are for others again.
  def test_more_requests_than_rows
    page = Abaca::Page.create(slots: 1, rows: 2)
    Abaca::Page.stub(:create, page) do
      serve("fiber", server_timing: false) do |server|
        sockets = Array.new(4) { server.connect.tap { |socket| socket.write(request("/lock")) } }
        assert Waits.eventually { server.slot.totals[:rows_missed] == 2 }
        sockets.each { server.release }
        sockets.each(&:read)
        2.times { server.begin("/lock") && server.row_in(:lock) && server.finish("/lock") }
        assert_equal 2, server.slot.totals[:rows_missed]
      end
    end
  end

  private

  def request(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"

  def check_after(server, mode, what)
    yield
    assert Waits.eventually { server.slot.requests.empty? }, "#{mode} #{what}"
    check_spin(server, mode, what)
  end

  # A request that computes shows while it does, and is kept as a slow one.
  def check_spin(server, mode, what)
    what = "#{mode}: after #{what}"
    socket = server.connect
    socket.write(request("/spin"))
    check_shown(spinning(server), what)
    assert_match(/\AHTTP.* 200 /, socket.read, what)
    socket.close
    check_kept(server, what)
  end

  def spinning(server)
    found = nil
    Waits.eventually { found = server.slot.requests(waits: true).find { |one| one[:path] == "/spin" } }
    found
  end

  def check_shown(row, what)
    assert row, what
    assert_equal [nil, nil, nil, nil], row.values_at(:trace, :route, :status, :waits_for), what
    assert_equal [0, []], row.values_at(:children, :waits), what
    assert_equal %w[GET called], [row[:method], row[:phase].to_s], what
    assert_empty row[:sums].keys - %i[queue run gvl io gc], what
    assert_in_delta row[:age], row[:sums].values.sum, 0.001, what
  end

  def check_kept(server, what)
    kept = nil
    Waits.eventually { (kept = server.slot.kept.first) && kept[:path] == "/spin" }
    assert_equal ["/spin", nil, nil, 200, :done], kept.values_at(:path, :trace, :route, :status, :end), what
    assert_includes kept[:reasons], :slow, what
    assert_in_delta kept[:age], kept[:sums].values.sum, 0.001, what
  end
end
