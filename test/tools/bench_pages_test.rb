# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "socket"
require_relative "../../bench/support/bench"
require_relative "../../bench/support/server_meter"
require_relative "../../bench/servers/row"
require_relative "../../bench/pages/load"
require_relative "../../bench/pages/apps"
require_relative "../../bench/pages/cells"
require_relative "../../bench/pages/tables"

# What `bin/bench pages` measures with, and what it says of it.
class BenchPagesTest < Minitest::Test
  PLAIN = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
  BUSY = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
  # The last chunk comes in two parts.
  CHUNKS = ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r", "\n\r\n"].freeze
  PART = 0.02 # seconds before each part of an answer

  def setup
    Bench::Compiler.program("clients/pages.c")
  rescue Bench::Unavailable => e
    skip e.message
  end

  # @param answers [Hash] path => parts of the answer; without any, the connection is closed
  # @return [Hash] what the client has found
  def figures(answers, **load)
    server = TCPServer.new("127.0.0.1", 0)
    accepting = Thread.new do
      loop { Thread.new(server.accept) { |socket| serve(socket, answers) } }
    rescue IOError
      nil # it is closed
    end
    warm = { answers: 3, seconds: 1 }
    Bench::Pages::Load.new(port: server.addr[1], page: "/page", light: "/light")
                      .run(seconds: 1, warm: warm, patience: 0, **load) { -> {} }
  ensure
    server.close
    accepting.join
  end

  def serve(socket, answers)
    while (head = socket.gets("\r\n\r\n"))
      parts = answers.fetch(head.split[1])
      sleep PART
      parts.each { |part| socket.write(part) && sleep(PART) }
      break if parts.empty? || parts.first == BUSY
    end
  rescue SystemCallError
    nil # the client has had enough
  ensure
    socket.close
  end

  def test_pages_and_light_requests
    found = figures({ "/page" => CHUNKS, "/light" => [PLAIN] }, pages: 3, lights: 2)
    assert_equal [0, 0], found.values_at(:wrong, :lost)
    assert_includes (found[:page_least] * 3)..(found[:page_most] * 3), found[:page]
    assert_includes (found[:light_least] * 2)..(found[:light_most] * 2), found[:light]
    assert_operator found[:page_least], :>, 0
    assert_operator found[:page_p50], :>=, 40_000
    assert_operator found[:light_worst], :>=, found[:light_p50]
    assert_operator found[:window], :>=, 1_000_000
  end

  def test_whatever_is_not_200_is_counted
    found = figures({ "/page" => [], "/light" => [BUSY] }, pages: 1, lights: 1)
    assert_equal 0, found[:page]
    assert_operator found[:lost], :>, 0
    assert_operator found[:light], :>, 0
    assert_equal found[:light], found[:wrong]
  end

  def test_a_client_that_cannot_connect
    error = assert_raises(Bench::Failed) do
      Bench::Pages::Load.new(port: Bench::Ports.free, page: "/").run(pages: 1, seconds: 1) { flunk }
    end
    assert_match(/connect/, error.message)
  end

  # Of the log, the lines since the start count.
  def test_meter
    code = "$stdout.sync = true; trap(:USR1) { puts 1, 2 }; puts 0; loop { sleep 0.001 }"
    child = Bench::Child.new([RbConfig.ruby, "--disable-gems", "-e", code], name: "test-meter")
    child.wait_ready(seconds: 10) { File.read(child.log) == "0\n" }
    meter = Bench::ServerMeter.new(child).start
    Process.kill(:USR1, child.pid)
    child.wait_ready(seconds: 10) { File.read(child.log).lines.size == 3 }
    reading = meter.stop
    assert_equal 2, reading.lines
    assert_operator reading.switches, :>, 0
    assert_operator reading.cpu, :>, 0
    assert_operator reading.memory, :>, 1 << 20
  ensure
    child&.stop
  end

  # Verdicts of a column of which these are the rounds.
  def verdict(rounds, baseline, more: false)
    turns, others = [rounds, baseline].map { |values| values.map { |value| { x: value } } }
    Bench::Pages.column("x", :x, more: more).verdict(turns, others)
  end

  def test_a_median_outside_the_rounds_of_the_baseline
    assert_equal "worse", verdict([5, 9, 1], [2, 3, 4])
    assert_equal "better", verdict([1, 1, 9], [2, 3, 4])
    assert_equal "worse", verdict([1, 1, 9], [2, 3, 4], more: true)
    assert_nil verdict([4, 4, 4], [2, 3, 4])
    assert_nil verdict([9, 9, 9], [2]), "one round has no range"
    assert_nil verdict([9, 9, 9], [2, 3, 4], more: nil), "neither is better"
  end

  # A request takes a millisecond, and 0.1 ms for each unit.
  def test_the_work_of_a_page_is_fitted
    app = Bench::Pages::Synthetic.new(ruby: Bench::Ruby.here)
    app.stub(:microseconds, ->(path, _) { 1000.0 + (path[/\d+/].to_i * 100) }) { app.calibrate("page", nil) }
    assert_equal "/page/190", app.path_of("page", 20)
    error = assert_raises(Bench::Failed) { app.path_of("page", 1) }
    assert_match(/the shortest page takes/, error.message)
    app.stub(:microseconds, ->(*) { 1000.0 }) do
      assert_raises(Bench::Failed) { app.calibrate("burn", nil) }
    end
  end

  Other = Struct.new(:name) do
    def label(label) = label.sub("abaca", name)
  end

  # Each row of this checkout has that of the other one as its baseline, and the other servers have the first one.
  def test_tables
    cell = Struct.new(:name, :columns).new("cell", [Bench::Pages.column("x", :x)])
    turns = { "abaca" => [2, 2], "abaca c0ffee" => [1, 1], "puma" => [1, 1] }
            .transform_values { |values| values.flat_map { |value| [{ "cell" => { x: value } }, { "another" => {} }] } }
    tables = Bench::Pages::Tables.new(turns, baseline: "abaca", against: Other.new("abaca c0ffee"))
    medians, ranges = tables.render(cell) { |label| label == "puma" ? " ~" : "" }.split("\n\n")
    assert_equal ["abaca worse 2", "abaca c0ffee 1", "puma ~ better 1"],
                 medians.lines.drop(2).map { |line| line.split.join(" ") }
    assert_equal "puma 1", ranges.lines.last.split.join(" ")
    assert_match(/of abaca; for this checkout's rows, of those of abaca c0ffee/, tables.legend)
  end

  def test_half_of_the_connections_are_light_but_no_more_than_25
    names = [2, 50, 300].map do |connections|
      Bench::Pages::Mix.new(milliseconds: 20, connections: connections, mixed: true).name
    end
    assert_equal ["20 ms, 1 and 1", "20 ms, 25 and 25", "20 ms, 275 and 25"], names
  end
end
