# frozen_string_literal: true

require "test_helper"
require "json"
require "support/cluster_case"
require "abaca"
require "abaca/control"
require "abaca/control/cli"

# A master with a control server.
class ControlClusterTest < Minitest::Test
  include ClusterCase

  CONFIG = <<~RUBY
    workers 2
    state_path "state"
    activate_control_app "unix://control.sock", auth_token: "secret"
  RUBY

  # Answers with what the app itself can see.
  STATS = "run ->(_env) { [200, { \"content-type\" => \"application/json\" }, [Abaca.stats]] }"

  # Runs `abacactl` here; returns its status, and what it wrote to both.
  def abacactl(*words)
    out = StringIO.new
    err = StringIO.new
    [Abaca::Control::CLI.run(["-Q", "-S", "#{@directory}/state", *words], out:, err:, env: {}), out.string, err.string]
  end

  def stats
    status, out, err = abacactl("stats")
    assert_equal [0, ""], [status, err]
    JSON.parse(out, symbolize_names: true)
  end

  # Stops it by the command; nothing of the control server is left.
  def stop(command)
    assert_equal 0, abacactl("stop").first
    assert_equal 0, command.wait.exitstatus
    assert_empty Dir.children(@directory).grep(/state|sock/)
  end

  # Whether a process has a socket that listens on this path, or was accepted there.
  def holds?(pid, path)
    sockets = File.readlines("/proc/net/unix").select { |line| line.end_with?(" #{path}\n") }
    names = sockets.map { |line| "socket:[#{line.split[6]}]" }
    Dir["/proc/#{pid}/fd/*"].any? { |link| names.include?(File.readlink(link)) }
  end

  def test_figures_of_all_workers
    command = run_cluster(STATS, config: CONFIG)
    assert(eventually { stats[:booted_workers] == 2 })
    seen = Array.new(3) { JSON.parse(ask(command), symbolize_names: true) }.last
    assert_equal [2, 3], [seen[:booted_workers], seen.dig(:abaca, :requests)]
    found = nil
    assert(eventually { (found = stats).dig(:abaca, :requests) == 3 })
    assert_equal [2, 2, 0, 0], found.values_at(:workers, :booted_workers, :old_workers, :phase)
    workers = found[:worker_status]
    assert_equal booted(command).map(&:pid).sort, workers.map { |worker| worker[:pid] }.sort
    assert_equal [0, 1], workers.map { |worker| worker[:index] }
    assert_equal 3, workers.sum { |worker| worker[:last_status][:requests_count] }
    assert_equal [1000, 1000], workers.map { |worker| worker[:last_status][:pool_capacity] }
    assert(workers.all? { |worker| worker[:last_checkin] })

    # One that is no more has left what it counted.
    Process.kill(:KILL, workers.first[:pid])
    wait_for_workers(command, 3)
    assert(eventually { stats.values_at(:workers, :booted_workers) == [2, 2] })
    assert_equal 3, stats.dig(:abaca, :requests)
    stop(command)
  end

  # What a worker does not have cannot outlive the master in it.
  def test_workers_let_go_of_the_control_server
    command = run_cluster(APP, config: CONFIG)
    path = "#{@directory}/control.sock"
    assert holds?(command.pid, path)
    refute(booted(command).any? { |worker| holds?(worker.pid, path) })
    assert_equal [1, "", "Command error: { \"error\": \"phased_restart not available\" }\n"], abacactl("phased-restart")
    stop(command)
  end

  # A master has no requests: each worker logs its own.
  def test_a_dump
    command = run_cluster(APP, config: CONFIG)
    assert_equal [0, "each worker writes its dump into the log\n", ""], abacactl("dump")
    command.wait_for(/=== 0 requests, .*=== 0 requests, /m)
    assert_equal booted(command).map(&:pid).sort, command.text.scan(/^\[(\d+)\] === 0/).flatten.map(&:to_i).sort
    stop(command)
  end

  def test_a_refork
    need_platform(:subreaper)
    command = run_cluster(APP, config: "#{CONFIG}fork_worker 0\n")
    assert_equal 0, abacactl("refork").first
    assert(eventually { stats[:worker_status].map { |worker| worker.values_at(:index, :phase) } == [[0, 1], [1, 1]] })
    assert(eventually { stats.values_at(:workers, :booted_workers, :old_workers, :phase) == [2, 2, 0, 1] })
    assert_equal booted(command).find { |worker| worker.index.zero? }.pid, stats[:worker_status].first[:pid]
    stop(command)
  end

  def test_a_phased_restart
    command = run_cluster(APP, config: "#{CONFIG}preload_app! false\n")
    assert_equal 0, abacactl("phased-restart").first
    wait_for_workers(command, 4)
    assert(eventually { stats.values_at(:workers, :booted_workers, :old_workers, :phase) == [2, 2, 0, 1] })
    assert_equal [0, 1], stats[:worker_status].map { |worker| worker[:index] }
    stop(command)
  end
end
