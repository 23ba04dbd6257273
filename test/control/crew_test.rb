# frozen_string_literal: true

require "test_helper"
require "json"
require "support/cluster_case"
require "abaca"
require "abaca/control"
require "abaca/control/cli"

# What the watch asks the processes that serve, and what an operator wants of them.
class ControlCrewTest < Minitest::Test
  include ClusterCase

  APP = <<~'RUBY'
    run(lambda do |env|
      if env["PATH_INFO"] == "/wait"
        $stderr.puts("waits")
        sleep 0.01 until File.exist?("go")
      end
      [200, { "content-type" => "text/plain" }, ["#{Process.pid}\n"]]
    end)
  RUBY
  CONFIG = <<~RUBY
    state_path "state"
    activate_control_app "unix://control.sock", auth_token: "hush", operate_token: "hush2"
  RUBY
  WAIT = GET.sub("/", "/wait")

  def run_single(config: CONFIG)
    run_abaca(APP, config:).tap { |command| command.wait_for(/Use Ctrl-C/) }
  end

  # Runs `abacactl` here; returns its status, and what it wrote to both.
  def abacactl(*words)
    out = StringIO.new
    err = StringIO.new
    [Abaca::Control::CLI.run(["-Q", "-S", "#{@directory}/state", *words], out:, err:, env: {}), out.string, err.string]
  end

  # What a look answers.
  def look(*words)
    status, out, err = abacactl(*words)
    assert_equal [0, ""], [status, err], words
    assert_equal 1, out.lines.size
    found = JSON.parse(out, symbolize_names: true)
    assert_equal 1, found[:v]
    found
  end

  def assert_refused(message, *words)
    status, out, err = abacactl(*words)
    assert_equal [1, ""], [status, out]
    assert_match message, err
  end

  # Requests that wait until #go.
  def waiting(command, count)
    sockets = Array.new(count) { TCPSocket.new("127.0.0.1", command.port).tap { |socket| socket.write(WAIT) } }
    # Lines of several workers may stand within each other.
    assert(eventually { command.text.scan("waits").size == count }, command.text)
    yield sockets
  ensure
    File.write("#{@directory}/go", "")
    sockets&.each(&:close)
  end

  # Its threads stop one after the other.
  def stand_still(command)
    command.signal(:STOP)
    assert(eventually do
      Dir["/proc/#{command.pid}/task/*/stat"].all? { |file| File.read(file).include?(") T ") }
    end)
  end

  def test_fibers_of_a_single_process
    command = run_single
    waiting(command, 3) do
      found = look("fibers")
      assert_equal [{ index: 0, pid: command.pid, pending: false }], found[:workers]
      group = found[:fibers].find { |row| row[:requests] == ["GET /wait"] }
      assert_equal [3, [0], "sleep"], group.values_at(:count, :workers, :waits_for)
      assert_match(/config\.ru:4:in /, group[:frame])
      stand_still(command)
      assert_equal [{ index: 0, pid: command.pid, pending: true }], look("fibers")[:workers]
    ensure
      command.signal(:CONT)
    end
    assert_equal 0, finish(command)
  end

  # Where each request is; who does not answer is pending, and what the page says is there all the same.
  def test_requests_with_their_frames
    command = run_single
    waiting(command, 2) do
      refute_includes look("requests")[:requests].first.keys, :line
      first, = JSON.parse(ask_for_frames, symbolize_names: true)[:requests]
      assert_match(/\Aconfig\.ru:4 in /, first[:line])
      assert_match(/config\.ru:4:in /, first[:frames].join("\n"))
      refute_includes first.keys, :pending
      stand_still(command)
      found = JSON.parse(ask_for_frames, symbolize_names: true)
      assert_equal [true, true], found[:requests].map { |row| row[:pending] }
      assert_equal %w[/wait /wait], found[:requests].map { |row| row[:path] }
    ensure
      command.signal(:CONT)
    end
    assert_equal 0, finish(command)
  end

  def ask_for_frames
    Abaca::Control::Client.new("unix://#{@directory}/control.sock").call("GET", "/requests?frames=1",
                                                                         token: "hush").body
  end

  # The master is not asked: it may be stopped.
  def test_workers_are_asked_by_the_watch
    command = run_cluster(APP, config: "#{CONFIG}workers 2\n")
    waiting(command, 4) do
      command.signal(:STOP)
      # The first look may find a busy machine.
      found = nil
      assert(eventually { (found = look("fibers"))[:workers].none? { |worker| worker[:pending] } }, found)
      assert_equal(booted(command).map(&:pid).sort, found[:workers].map { |worker| worker[:pid] }.sort)
      assert_equal(4, found[:fibers].sum { |row| row[:requests] == ["GET /wait"] ? row[:count] : 0 })
      done, = look("worker-gc", "1")[:workers]
      asked = booted(command).find { |worker| worker.index == 1 }
      assert_equal [1, asked.pid, true], done.values_at(:index, :pid, :done)
    ensure
      command.signal(:CONT)
    end
    assert_refused(/no worker 9/, "worker-gc", "9")
    assert_equal 0, finish(command)
  end

  # It has no fiber yet that could get an exception.
  def test_a_request_in_the_queue_cannot_be_cancelled
    command = run_abaca(APP, config: "#{CONFIG}max_fibers 1\n").tap { |one| one.wait_for(/Use Ctrl-C/) }
    assert(eventually { abacactl("-Q", "fibers")[1].include?('"pending":false') })
    waiting(command, 1) do
      second = TCPSocket.new("127.0.0.1", command.port).tap { |socket| socket.write(WAIT) }
      queued = nil
      assert(eventually { queued = look("requests")[:requests].find { |row| row[:mode] == "queued" } })
      assert_match(/\A0\.q\d+\z/, queued[:id])
      assert_refused(/#{Regexp.escape(queued[:id])} is still in the queue/, "cancel", queued[:id])
      assert_refused(/no such request/, "cancel", "0.q99")
      assert_refused(/no such request/, "cancel", "9.q1")
    ensure
      File.write("#{@directory}/go", "")
      second&.then { |socket| socket.readpartial(1) && socket.close }
    end
    assert_equal 0, finish(command)
  end

  def test_a_request_that_is_cancelled
    command = run_cluster(APP, config: "#{CONFIG}workers 2\n")
    waiting(command, 1) do |sockets|
      id = look("fibers")[:fibers].flat_map { |row| row[:ids] }.first
      assert_match(/\A[01]\.1\z/, id)
      assert_refused(/no such request/, "cancel", id.sub(".1", ".2"))
      assert_refused(/no such request/, "cancel", "9.1")
      assert_refused(/an id such as 0\.4711 is needed/, "cancel", "x")
      assert_equal [0, "", ""], abacactl("cancel", id)
      assert_match(%r{\AHTTP/1\.1 503 }, sockets.first.read)
      command.wait_for(%r{EndedByOperator: an operator has ended the request \(GET /wait\)})
      assert_refused(/no such request/, "cancel", id)
    end
    assert_equal 0, finish(command)
  end

  def test_a_setting_is_changed_until_the_next_start
    command = run_cluster(APP, config: "#{CONFIG}workers 2\nmax_queue 7\n")
    assert_equal({ max_queue: 7 }, look("set")[:set])
    found = look("set", "max_queue=3")
    assert_equal([[0, true, 3], [1, true, 3]], found[:workers].map { |one| one.values_at(:index, :done, :max_queue) })
    assert_equal({ value: 3, from: "set" }, look("config").dig(:config, :max_queue))
    assert_refused(/-1/, "set", "max_queue=-1")
    assert_refused(/"workers" cannot be changed: only max_queue can/, "set", "workers=1")
    assert_refused(/Usage: abacactl set \[NAME=VALUE\]/, "set", "a=1", "b=2")

    # Those that come later have it too, and the next watch knows it.
    Process.kill(:KILL, watch_of(command))
    command.wait_for(/is started anew/)
    assert_equal({ max_queue: 3 }, look("set")[:set])
    assert_equal 0, finish(command)
  end

  # No place and no queue: what comes is refused, and before the change it was not.
  def test_the_queue_that_is_changed
    command = run_single(config: "#{CONFIG}max_fibers 1\nmax_queue 5\n")
    waiting(command, 1) do
      first = TCPSocket.new("127.0.0.1", command.port).tap { |socket| socket.write(GET) }
      assert(eventually { JSON.parse(abacactl("stats")[1])["backlog"] == 1 })
      look("set", "max_queue=1")
      second = connect(command.port).call(GET)
      assert_equal 503, second.status
      File.write("#{@directory}/go", "")
      assert_match(/ 200 OK/, first.readpartial(1000))
    ensure
      first&.close
    end
    assert_equal 0, finish(command)
  end

  def test_drained_and_recycled_workers
    command = run_cluster(APP, config: "#{CONFIG}workers 2\n")
    first, second = booted(command).sort_by(&:index)
    assert_equal [0, "", ""], abacactl("worker-drain", "1")
    assert gone?(second.pid)
    third = wait_for_workers(command, 3).last
    assert_equal 1, third.index
    assert_match(/Worker 1 \(PID: #{second.pid}\) is drained: somebody has asked for it/, command.text)

    # Its successor boots before it is told to end.
    assert_equal [0, "", ""], abacactl("worker-recycle", "0")
    assert gone?(first.pid)
    assert_match(/#{first.pid}\) is replaced.*Worker 0 \(PID: \d+\) booted.*Stopping #{first.pid}/m, command.text)
    assert_refused(/no worker 7/, "worker-recycle", "7")
    assert_equal 0, finish(command)
  end

  def test_no_workers_to_drain
    command = run_single
    assert_refused(/no worker 0/, "worker-drain", "0")
    assert_equal 0, finish(command)
  end

  # Nobody who may see it learns a token, and it says where things come from.
  def test_the_settings_in_force
    command = run_single(config: "#{CONFIG}max_queue 9\n")
    _, out, = abacactl("config")
    config = JSON.parse(out, symbolize_names: true)[:config]
    assert_equal({ value: 9, from: "settings.rb:3" }, config[:max_queue])
    assert_equal({ value: "(secret)", from: "settings.rb:2" }, config[:control_auth_token])
    assert_equal "default", config.dig(:max_fibers, :from)
    refute_includes out, "hush"
    assert_equal 0, finish(command)
  end

  def test_a_log_level_that_is_changed
    command = run_cluster(APP, config: "#{CONFIG}workers 1\nlog_level :warn\nsilence_single_worker_warning\n",
                               count: 0)
    assert(eventually { abacactl("status").first.zero? })
    assert_equal "warn", look("log-level")[:level]
    assert_equal "info", look("log-level", "info")[:level]
    command.wait_for(/Control server: log level info, which was warn/)
    assert_refused(/unknown log level/, "log-level", "loud")
    assert_equal 0, finish(command)
  end

  # A worker that is forked from another one has a line of its own.
  def test_after_a_refork
    need_platform(:subreaper)
    command = run_cluster(APP, config: "#{CONFIG}workers 2\nfork_worker 0\n")
    assert_equal 0, abacactl("refork").first
    wait_for_workers(command, 3)
    assert(eventually do
      workers = look("fibers")[:workers]
      workers.size == 2 && workers.none? { |worker| worker[:pending] }
    end)
    assert_equal 0, finish(command)
  end
end
