# frozen_string_literal: true

require_relative "faces_case"

# What all faces say while something stalls: the page in Chromium, its stream, `abaca top` in a terminal, the control
# server and the metrics. A request holds on until the test lets it go, so that whatever answers before that has
# answered during the stall, however busy the machine is.
class DashboardStallTest < Minitest::Test
  include FacesCase

  APP = <<~RUBY
    require "fiddle"
    pause = Fiddle::Function.new(Fiddle.dlopen(nil)["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
    class Report
      def self.sum = (nil until File.exist?("go"))
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/hold" then pause.call(10_000) until File.exist?("go")
      when "/burn" then Report.sum
      end
      File.write("gone", "")
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY
  def teardown
    File.write("#{@directory}/go", "")
    @clients&.each(&:close)
    super
  end

  def stage(*arguments) = super(*arguments, app: APP)

  # A request that holds its loop; returns its connection.
  def hold(path)
    socket = TCPSocket.new("127.0.0.1", @server.port)
    (@clients ||= []) << socket
    socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\n\r\n")
    socket
  end

  def let_go
    refute_path_exists "#{@directory}/gone", "it was let go too early"
    File.write("#{@directory}/go", "")
    @clients.each { |client| assert_match(/done\z/, client.readpartial(1000)) }
  end

  def alarms = browser.value("document.querySelector('#stalls').textContent")

  # Waits for what the page in the browser says of stalls.
  def wait_for_alarm(pattern)
    browser.wait_for("#{pattern.inspect}.test(document.querySelector('#stalls').textContent)")
  end

  # Each of them answers, and names the request and how long it has held its loop.
  def assert_seen(path)
    request = json("/requests")[:requests].find { |one| one[:path] == path }
    assert_equal "run", request[:state]
    assert_operator request[:since], :>, 0.02
    stall = json("/stalls")[:now].first
    assert_equal [0, "stalled", request[:id]], stall.values_at(:worker, :state, :request)
    found, = first_event("/live?screen=fibers", Cookie: cookie)
    assert_equal [[0, path]], found.dig(:overview, :stalls).map { |one| one.values_at(:worker, :path) }
    assert_operator found.dig(:overview, :stalls, 0, :age), :>, 0.02
    assert_includes found.dig(:table, :rows).map { |row| row.values_at(:state, :path) }, ["stalled", path]
    assert_operator ask("/metrics")[/^abaca_stall_current_seconds(?:\{.*\})? (\S+)$/, 1].to_f, :>, 0.02
    refute_path_exists "#{@directory}/gone"
  end

  # The browser and the terminal show it, with an age that grows.
  def assert_shown(path)
    wait_for_alarm(/Stall +worker 0 .*#{Regexp.escape(path)}/)
    ages = Array.new(2) do
      @terminal.wait_for(/^STALL +worker 0 .*GET #{path}/)[/^STALL +worker 0 +([\d.]+m?s)/, 1].tap { sleep 1.2 }
    end
    refute_equal(*ages)
    assert_equal "live", browser.value("document.querySelector('#state').textContent")
    assert_equal [path], column("PATH")
    @terminal.press("1")
    @terminal.wait_for(/LOOP%.*\n[>!] *0 .* (9\d|1\d\d)\.\d /) # a kept loop is full
    refute_path_exists "#{@directory}/gone"
  end

  def assert_event(pattern)
    assert(eventually { json("/events")[:events].any? { |one| one[:kind] == "stall" && pattern.match?(one[:text]) } })
    browser.press("7")
    browser.wait_for("[...document.querySelectorAll('#rows tr')].some((row) => " \
                     "/stall/.test(row.textContent) && #{pattern.inspect}.test(row.textContent))")
    @terminal.press("7")
    @terminal.wait_for(/ stall .*#{pattern.source}/)
    assert(eventually { alarms.empty? }, alarms)
  end

  # No Ruby runs in the process, on any thread.
  def test_an_extension_keeps_the_lock
    stage
    hold("/hold")
    wait_for_alarm(/hold/)
    assert_seen("/hold")
    assert_shown("/hold")
    let_go
    assert_event(/config\.ru:\d+/)
  end

  # Ruby can be interrupted: so the line is known meanwhile, though no loop is left that could tell it.
  def test_a_loop_that_computes
    stage("--spare-loops", "0")
    hold("/burn")
    wait_for_alarm(/burn.*config\.ru:4/)
    assert_seen("/burn")
    @terminal.wait_for(/^STALL.*config\.ru:4/)
    assert_match(/config\.ru:4/, json("/stalls")[:events].first[:text])
    assert_shown("/burn")
    assert_match(/config\.ru:4/, json("/fibers")[:fibers].to_s) # asks the process's own Ruby
    let_go
    assert_event(/config\.ru:4/)
  end

  # The master alone is stopped, and its workers serve; then one of them is stopped, and the other one serves.
  def test_a_stopped_master_and_a_stopped_worker
    need_platform(:proc)
    stage("-w", "2")
    pids = nil
    assert(eventually { (pids = workers).size == 2 })
    @server.signal(:STOP)
    [@server.pid, pids.fetch(1)].each do |pid|
      Process.kill(:STOP, pid)
      browser.wait_for("/stopped: [ 0-9,]*#{pid}/.test(document.querySelector('#facts').textContent)")
      @terminal.wait_for(/stopped: [ \d]*#{pid}/)
    end
    wait_for_alarm(/worker 1 .*process #{pids.fetch(1)} is stopped/)
    @terminal.wait_for(/^STALL +worker 1 .*process #{pids.fetch(1)} is stopped/)
    assert_equal pids.values.sort, json("/workers")[:workers].map { |one| one[:pid] }.sort
    assert_match(/^abaca_worker_heartbeat_age_seconds\{.*worker="1".*\} [2-9]/, ask("/metrics"))
    found, = first_event("/live", Cookie: cookie)
    assert_equal [@server.pid, pids.fetch(1)].sort, found.dig(:overview, :stopped).sort
  ensure
    @server&.signal(:CONT)
    Process.kill(:CONT, pids.fetch(1)) if pids
  end
end
