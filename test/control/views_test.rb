# frozen_string_literal: true

require "test_helper"
require "json"
require "support/page_writer"
require_relative "control_case"

# What the control server answers from the page.
class ControlViewsTest < Minitest::Test
  include ControlCase

  LOOKS = %w[requests kept loops routes waits clients stalls events history].freeze
  # As the launcher has it: the second slot of a number is that of a successor.
  Slots = Struct.new(:page, :most)

  def setup
    super
    GC.start # other tests have pages, too
    @page = Abaca::Page.create(slots: 2, rows: 100, queued: 100)
    @views = Control::Views.new(Slots.new(@page, 1))
    @address = control(views: @views, texts: Control::Texts.new(@page, master: Process.pid))
  end

  def teardown
    super
    @page.close
  end

  def write(slot, *arguments)
    @page[slot].claim unless @page[slot].mine?
    @page[slot].state = :serving
    PageWriter.write(Process.pid, slot, *arguments)
  end

  def look(target)
    answer = get(@address, target)
    assert_match(/\AHTTP\S+ 200 /, answer, target)
    text = answer.split("\r\n\r\n", 2).last
    assert_equal 1, text.lines.size
    found = JSON.parse(text, symbolize_names: true)
    assert_equal 1, found[:v]
    found
  end

  def test_nothing_yet
    LOOKS.each { |name| assert_kind_of Hash, look("/#{name}") }
    assert_equal({ v: 1, total: 0, states: {}, requests: [] }, look("/requests"))
  end

  def test_requests
    write(1, "scene")
    found = look("/requests")
    assert_equal [2, { db: 2 }], found.values_at(:total, :states)
    queued, runs = found[:requests]
    assert_equal ["1.9", 0, "db", "queued", "/waits"], queued.values_at(:id, :worker, :state, :mode, :path)
    assert_equal ["1.8", "/<b>?\e[31m", "/reports/:id", "10.0.0.9:5432"],
                 runs.values_at(:id, :path, :route, :waits_for), "bytes that are no text"
    assert_equal "4bf9#{"0" * 26}36", runs[:trace]
    refute_includes runs.keys, :waits
    assert_equal 1, look("/requests?most=1&waits=1")[:requests].size
    assert_equal "queue", look("/requests?waits=1")[:requests].last[:waits].first[2]
    ["most=0", "most=x", "most=-1", "most=99999999999999999999"].each { |query| look("/requests?#{query}") }
    refute_includes body(@address, "/requests", "Accept" => "text/plain"), "\e"
  end

  def test_the_other_looks
    write(0, "scene")
    kept, = look("/kept")[:kept]
    assert_equal ["0.7", %w[slow failed], 500], kept.values_at(:id, :reasons, :status)
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, kept[:ended_at])
    line, = look("/loops")[:loops]
    assert_equal ["stalled", "0.8", 0], line.values_at(:state, :request, :worker)
    route, = look("/routes")[:routes]
    assert_equal ["/reports/:id", 1, 1], route.values_at(:route, :requests, :errors)
    assert_includes 0.01..10, route[:p99]
    wait, = look("/waits")[:waits]
    assert_equal ["db", "10.0.0.9:5432", 2], wait.values_at(:kind, :target, :now)
    assert_equal [2, { db: 2 }], look("/waits").values_at(:looked_at, :states)
    assert_equal "10.0.0.7", look("/clients")[:clients].first[:address]
    assert_equal ["stall", "0.8", "app/reports.rb:41"],
                 look("/events")[:events].first.values_at(:kind, :request, :text)
    stalls = look("/stalls")
    assert_equal [1, 1], [stalls[:now].size, stalls[:events].size]
    assert_equal ["seconds", 3], [look("/history")[:width], look("/history")[:history].first[:requests]]
    assert_equal "tens", look("/history?width=tens")[:width]
  end

  def text(target) = body(@address, target, "Accept" => "text/plain")

  # Those who ask for text get the screens of `abaca top`; looks without one are tables.
  def test_screens
    write(0, "scene")
    { "workers" => /^ *W\*? .*STATE/, "requests" => /^ *AGE\* /, "routes" => /^ *ROUTE/, "waits" => /WAITS|KIND/,
      "loops" => /^ *W +LOOP/, "clients" => /OPEN/, "events" => /KIND|WHAT/ }.each do |name, head|
      lines = text("/#{name}").lines(chomp: true)
      assert_match(%r{\Aabaca .*up .*r/s}, lines.first, name)
      assert_match(/^state +run/, lines.grep(/^state/).first, name)
      assert(lines.any?(head), [name, *lines].join("\n"))
      assert_operator lines.map(&:size).max, :<=, 140
    end
    assert_operator text("/requests?columns=60").lines.map(&:chomp).map(&:size).max, :<=, 60
    assert_includes text("/requests?filter=waits"), "/waits"
    refute_includes text("/requests?filter=waits")[/^Requests$.*/m], "/<b>"
    refute_includes text("/requests?worker=1"), "/waits"
    assert_match(/^kept \(1\)$/, text("/kept"))
    ["columns=x", "columns=-5", "columns=1&worker=x&filter=%FF%1B"].each do |query|
      refute_includes text("/requests?#{query}"), "\e"
    end
    assert_equal 1, body(@address, "/requests", "Accept" => "application/json").lines.size
  end

  # Whatever a fault has left there, and clients have sent.
  def test_garbage
    20.times do |seed|
      write(0, "garbage", seed)
      LOOKS.each do |name|
        look("/#{name}?waits=1&most=100000")
        refute_includes text("/#{name}"), "\e" if seed < 4
      end
    end
  end

  # Reads from a stream until it has this.
  def read_until(socket, pattern)
    text = +""
    assert(eventually do
      text << socket.read_nonblock(10_000, exception: false).to_s.delete_prefix("wait_readable")
      text.match?(pattern)
    end, text)
    text
  end

  def stream(**fields)
    socket = connect(@address)
    socket.write("GET /events HTTP/1.1\r\nAccept: text/event-stream\r\n" \
                 "#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
    socket
  end

  def test_events_as_a_stream
    write(0, "scene")
    socket = stream
    head = read_until(socket, /\r\n\r\n/)
    assert_match(%r{\AHTTP/1\.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n}, head)
    refute_match(/Content-Length/, head)
    write(1, "scene")
    text = read_until(socket, /\n\n\z/)
    assert_match(%r{\Aid: 1\.0\nevent: stall\ndata: \{"v":1,.*"text":"app/reports\.rb:41".*\}\n\n\z}, text)
    # Who comes again gets what has come since.
    again = stream("Last-Event-ID" => "0.0")
    assert_match(/^id: 1\.0$/, read_until(again, /^data: .*\n\n/))
    @servers.pop.close
    assert_nil socket.read(1), "the end of the server"
  ensure
    [socket, again].compact.each(&:close)
  end

  # Streams leave places for those who ask.
  def test_many_streams
    sockets = Array.new(8) { stream.tap { |socket| read_until(socket, /\r\n\r\n/) } }
    ninth = stream
    assert_match(/\AHTTP\S+ 503 /, ninth.read)
    assert_equal 200, status(@address, "/events")
    sockets.pop.close
    assert(eventually { (last = stream).readpartial(100).start_with?("HTTP/1.1 200").tap { last.close } })
  ensure
    [*sockets, ninth].each(&:close)
  end
end
