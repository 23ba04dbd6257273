# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "support/cluster_case"

# What happens to workers and to their master, under load.
class ClusterFaultTest < Minitest::Test
  include ClusterCase

  # One request of a worker's may be in each client's hands.
  def test_a_worker_that_is_killed
    command = run_cluster
    load = Load.new(command.port)
    2.times do |round|
      assert load.more?
      Process.kill(:KILL, running(command).first.pid)
      wait_for_workers(command, 3 + round)
    end
    assert load.more?
    failures = load.stop
    assert_operator failures.size, :<=, 2 * 4
    assert_empty failures.grep(/REFUSED/), "new connections are taken"
    assert_equal 2, running(command).size
    assert_match(/Worker \d \(PID: \d+\) was killed by KILL/, command.text)
    assert_equal({ boot: 4, death: 2 }, events(command).group_by { |one| one[:kind] }.transform_values(&:size))
    died = events(command).find { |one| one[:kind] == :death }
    assert_match(/\AWorker \d \(PID: \d+\) was killed by KILL\z/, died[:text])
    assert_equal 0, finish(command)
  end

  # What the master has noted.
  def events(command)
    page = Abaca::Page.of(command.pid)
    page.slots.flat_map(&:events).select { |one| %i[boot death].include?(one[:kind]) }
  ensure
    page&.close
  end

  def test_term_under_load
    command = run_cluster("run ->(_env) { sleep 0.02; [200, { 'content-type' => 'text/plain' }, ['whole']] }")
    load = Load.new(command.port, clients: 8)
    assert load.more?
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    failures = load.stop
    assert_empty failures.reject { |failure| failure.include?("REFUSED") }
  end

  def test_the_master_is_killed
    command = run_cluster("run(->(_env) { [200, { 'content-type' => 'text/plain' }, [Process.pid.to_s]] })\n" \
                          "Thread.new { loop {} }", config: "workers 2\npreload_app! false")
    pids = booted(command).map(&:pid)
    command.signal(:KILL)
    pids.each { |pid| assert gone?(pid) }
    command.wait_for(/worker 0: the master has died/)
    assert_raises(Errno::ECONNREFUSED) { connect(command.port) }
  end

  # What can be answered is answered before the end; what cannot is broken off.
  def test_a_worker_that_does_not_end_in_time
    timeouts = { 503 => "shutdown_timeout 0.5\nworker_shutdown_timeout 15", nil => "worker_shutdown_timeout 1" }
    { "sleep" => 503, "loop { }" => nil }.each do |code, status|
      command = run_cluster("run ->(_env) { #{code} }", config: "workers 1\n#{timeouts[status]}", count: 1)
      client = connect(command.port).write(CLOSE)
      assert(eventually { command.signal(:PWR) && command.text.include?("GET /") })
      command.signal(:TERM)
      status ? assert_equal(status, client.read.status) : assert_raises(EOFError, Errno::ECONNRESET) { client.read }
      assert_equal 0, command.wait.exitstatus
      assert_equal status.nil?, command.text.match?(/Worker 0 \(PID: \d+\) does not end, and is killed/)
    end
  end

  # They end although a request does not.
  def test_a_second_signal
    command = run_cluster("run ->(_env) { sleep }")
    client = connect(command.port).write(CLOSE)
    assert(eventually { command.signal(:PWR) && command.text.include?("waits for sleep") })
    command.signal(:TERM)
    command.wait_for(/Gracefully/)
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    assert_equal 503, client.read.status
  end

  # Then nothing is waited for, and no worker is left. The second one cannot break off this request.
  def test_a_third_signal
    app = "run ->(_env) { Thread.handle_interrupt(Object => :never) { loop {} } }"
    command = run_cluster(app, config: "workers 1", count: 1)
    connect(command.port).write(CLOSE)
    assert(eventually { command.signal(:PWR) && command.text.include?("GET /") })
    3.times do |i|
      command.signal(:TERM)
      command.wait_for([/Gracefully/, /Stopping immediately/, /the process ends without it/][i])
    end
    assert_equal 1, command.wait.exitstatus
    assert gone?(booted(command).first.pid)
  end
end
