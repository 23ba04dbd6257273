# frozen_string_literal: true

# also: rubies

require "test_helper"
require "json"
require "abaca"
require "support/cluster_case"

# Workers that hang, and their number.
class ClusterCareTest < Minitest::Test
  include ClusterCase

  Slot = Struct.new(:state)
  End = Struct.new(:exitstatus, :termsig) do
    def exited? = !exitstatus.nil?
  end
  TIMEOUTS = "workers 2\nworker_check_interval 0.1\nworker_timeout 3\n"

  # Whether a worker has failed that has served for so long, and ends with a status or by a signal.
  def failed?(how, served)
    time = 0
    place = Abaca::Launcher::Cluster::Place.new(0, 0, Slot.new)
    worker = Abaca::Launcher::Cluster::Handle.new(1, place, clock: -> { time })
    worker.boot if served
    time += served.to_f
    status = Integer(how, exception: false)
    worker.end_with(End.new(status, status ? nil : Signal.list.fetch(how)))
    worker.failed?
  end

  # Whether another worker has come after this one with the same number.
  def replaced?(command, pid)
    index = booted(command).find { |worker| worker.pid == pid }.index
    eventually { booted(command).select { |worker| worker.index == index }.last.pid != pid }
  end

  def test_a_worker_that_stands_still
    command = run_cluster(config: TIMEOUTS)
    pid = booted(command).first.pid
    Process.kill(:STOP, pid)
    assert replaced?(command, pid), command.text
    assert_match(/timed out worker \(Worker \d failed to check in within 3 seconds\): #{pid}$/, command.text)
    assert gone?(pid)
    assert_equal 0, finish(command)
  end

  def test_a_boot_that_takes_too_long
    command = run_abaca("sleep unless File.exist?('repaired')\n#{APP}",
                        config: "workers 1\npreload_app! false\nworker_boot_timeout 1\nworker_check_interval 0.1")
    command.wait_for(/Terminating timed out worker \(Worker 0 failed to boot within 1 seconds\)/)
    File.write(File.join(@directory, "repaired"), "")
    wait_for_workers(command, 1)
    assert_equal 0, finish(command)
  end

  # Which ends count: those by itself, and soon. nil: it has not booted.
  def test_what_is_a_failure
    ends = %w[0 3 ABRT KILL]

    assert_equal [true, true, true, false], ends.map { |how| failed?(how, nil) }
    assert_equal [false, true, true, false], ends.map { |how| failed?(how, 0.5) }
    assert_equal [false] * 4, ends.map { |how| failed?(how, 1.5) }
  end

  def test_pauses_between_tries
    time = 0
    back_off = Abaca::Launcher::Cluster::BackOff.new(clock: -> { time })
    pauses = Array.new(8) { back_off.fail.tap { |pause| time += pause + 1 } }

    assert_equal [0, 1, 2, 4, 8, 16, 30, 30], pauses
    time += 60
    assert_equal [0, 1, 0, 1.0], [back_off.fail, back_off.fail, back_off.fail, back_off.left]
  end

  # More and fewer; the youngest goes first, and one stays.
  def test_the_number_of_workers
    command = run_cluster(config: "workers 1", count: 1)
    first = booted(command).first
    2.times { |i| command.signal(:TTIN) && wait_for_workers(command, 2 + i) }
    assert_equal [0, 1, 2], running(command).map(&:index)
    _, second, third = booted(command)
    { third => [0, 1], second => [0] }.each do |youngest, left|
      command.signal(:TTOU)
      assert gone?(youngest.pid)
      assert_equal left, running(command).map(&:index)
    end
    command.signal(:TTOU)
    command.wait_for(/one worker stays/)
    command.signal(:TTIN)
    assert_equal 1, wait_for_workers(command, 4).last.index
    assert_includes running(command).map(&:pid), first.pid
    assert_equal 0, finish(command)
  end

  # The time begins when all have booted, and again after each request.
  def test_idle
    app = "sleep 1.5\nrun ->(_env) { sleep 0.01 until File.exist?('go'); [200, {}, ['late']] }"
    command = run_abaca(app, config: "workers 2\npreload_app! false\nidle_timeout 1\nworker_check_interval 0.1")
    client = connect(command.port).write(CLOSE)
    wait_for_workers(command, 2)
    nothing_for(1.5) { !command.text.include?("idle timeout") }
    File.write(File.join(@directory, "go"), "")
    assert_equal "late", client.read.body
    command.wait_for(/All workers reached idle timeout/)
    assert_equal 0, command.wait.exitstatus
  end

  # The master's figures are the workers', and a worker has them, too.
  def test_figures
    app = <<~RUBY
      run ->(_env) { [200, { "content-type" => "application/json" }, [Abaca.stats]] }
    RUBY
    command = run_cluster(app, "--control-url", "unix://control", "--control-token", "none")
    3.times { ask(command) }
    all = nil
    assert(eventually { (all = JSON.parse(ask(command)))["abaca"]["requests"] > 4 })
    assert_equal [2, 2, 0, 0], all.values_at("workers", "booted_workers", "old_workers", "phase")
    assert_equal [0, 1], all["worker_status"].map { |worker| worker["index"] }
    assert_equal booted(command).map(&:pid).sort, all["worker_status"].map { |worker| worker["pid"] }.sort
    Process.kill(:KILL, booted(command).first.pid)
    wait_for_workers(command, 3)
    assert_operator JSON.parse(ask(command)).dig("abaca", "requests"), :>, all["abaca"]["requests"]
    assert_equal 0, finish(command)
  end
end
