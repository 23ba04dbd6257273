# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "support/cluster_case"

# `fork_worker`: workers that are forked from worker 0.
class ClusterReforkTest < Minitest::Test
  include ClusterCase

  # An app that remembers what it was asked: what was forked from a process that has served knows it.
  MEMORY = <<~'RUBY'
    $asked = []
    run(lambda do |env|
      $asked << env["PATH_INFO"] unless env["PATH_INFO"] == "/"
      sleep 0.01 while env["PATH_INFO"] == "/hold" && File.exist?("hold")
      [200, { "content-type" => "text/plain" }, ["#{Process.pid} #{Process.ppid} #{$asked.join(',')}\n"]]
    end)
  RUBY
  REFORKED = /Worker 1 \(PID: \d+\) booted in [\d.]+s, phase: 1.*Worker 2 \(PID: \d+\) booted in [\d.]+s, phase: 1/m

  # Runs three workers, and waits for the end of the boot.
  def run_three(more = "", rackup: MEMORY, **options)
    need_platform(:subreaper)
    config = "workers 3\nfork_worker 0\nafter_booted { puts 'all booted' }\n#{more}"
    run_cluster(rackup, config:, count: 3, **options).tap { |command| command.wait_for(/all booted/) }
  end

  # The worker of this number that has booted last.
  def last(command, index) = booted(command).select { |worker| worker.index == index }.last

  # What a worker answers: new connections until it is that one's turn.
  def ask_worker(command, pid, path = "/")
    answer = nil
    assert(eventually do
      answer = connect(command.port).call(CLOSE.sub("/", path)).body.split
      answer.first.to_i == pid
    end)
    answer
  end

  def await_refork(command)
    command.wait_for(REFORKED)
    command.wait_for(/all booted.*all booted/m)
  end

  def test_workers_are_forked_from_the_first
    command = run_three(<<~RUBY)
      before_refork { puts "before_refork \#{Process.pid}" }
      after_refork { puts "after_refork \#{Process.pid}" }
      before_worker_fork { |index| puts "before_worker_fork \#{index} \#{Process.pid}" }
      after_worker_fork { |index| puts "after_worker_fork \#{index} \#{Process.pid}" }
      before_worker_boot { |index| puts "before_worker_boot \#{index} \#{Process.pid}" }
      before_worker_shutdown { |index| puts "before_worker_shutdown \#{index} \#{Process.pid}" }
    RUBY
    assert_includes command.text, "*     Restarts: (✔) hot (✖) phased (✔) refork".b
    zero, *others = [0, 1, 2].map { |index| last(command, index).pid }
    ask_worker(command, zero, "/warm")
    at = command.text.bytesize
    load = Load.new(command.port)
    command.signal(:URG)
    await_refork(command)
    assert load.more?
    assert_empty load.stop
    text = command.text.byteslice(at..)
    one, two = [1, 2].map { |index| last(command, index).pid }
    assert_match(/worker refork, phase: 1.*Stopping #{others[0]} for refork.*Stopping #{others[1]} for refork/m, text)
    lines = text.scan(/^(?:before|after)_(?:refork|worker_fork|worker_boot).*$/)
    assert_equal ["before_refork #{zero}", "before_worker_fork 1 #{zero}"], lines.first(2)
    assert_equal "after_refork #{zero}", lines.last
    assert_includes lines, "before_worker_boot 1 #{one}"
    assert_includes lines, "after_worker_fork 2 #{zero}"
    refute_includes text, "before_worker_shutdown 0"
    others.each { |pid| assert gone?(pid) }
    [zero, one, two].each do |pid|
      assert_equal [pid, command.pid, "/warm"], ask_worker(command, pid).then { |a, b, c| [a.to_i, b.to_i, c] }
    end
    refute_match(/reaped unknown|warning|error/i, text)
    assert_equal 0, finish(command)
    assert_equal 3, command.text.scan(/before_worker_shutdown \d (?:#{zero}|#{one}|#{two})$/).size
  end

  def test_after_so_many_requests_once
    need_platform(:subreaper)
    command = run_cluster(MEMORY, config: "workers 2\nfork_worker 20\nworker_check_interval 0.1\nworker_timeout 60")
    load = Load.new(command.port)
    command.wait_for(/Worker 1 \(PID: \d+\) booted in \d+\.\d+s, phase: 1/)
    assert load.more?(200)
    assert_empty load.stop
    assert_equal 1, command.text.scan("Starting worker refork").size
    assert_equal 0, finish(command)
  end

  # And again, from the same worker; one that dies is replaced by the master, and can be reforked as well.
  def test_again_and_again
    command = run_three
    3.times do |i|
      command.signal(:URG)
      command.wait_for(/Starting worker refork, phase: #{i + 1}(.*all booted){1}/m)
    end
    assert_equal booted(command).first(3).find { |worker| worker.index.zero? }, last(command, 0)
    Process.kill(:KILL, last(command, 2).pid)
    wait_for_workers(command, 10)
    assert_equal 3, last(command, 2).phase
    command.signal(:URG)
    command.wait_for(/Worker 2 \(PID: \d+\) booted in \d+\.\d+s, phase: 4.*all booted/m)
    assert_equal 0, finish(command)
  end

  # It has the time of a graceful stop for its requests, and the others serve.
  def test_a_long_request_of_the_first
    command = run_three
    hold = File.join(@directory, "hold")
    File.write(hold, "")
    zero = last(command, 0).pid
    clients = [] # the page may tell of one a moment later
    assert(eventually do
      clients << connect(command.port)
      clients.last.write("GET /hold HTTP/1.1\r\nHost: a.test\r\n\r\n")
      slot_of(zero).figures[:in_app].positive?
    end)
    command.signal(:URG)
    command.wait_for(/Starting worker refork/)
    assert(eventually { slot_of(zero).state == :draining })
    refute_includes Array.new(10) { ask(command).to_i }, zero
    File.delete(hold)
    assert_includes(clients.map { |client| client.read.body.to_i }, zero)
    clients.each(&:close) # or the stop would wait a second for another request
    await_refork(command)
    assert_equal 0, finish(command)
  end

  def slot_of(pid) = Abaca::Page.of(pid).find { |slot| slot.pid == pid }

  def test_a_signal_for_each_moment
    command = run_three("before_refork { File.write('resting', ''); sleep 0.05 until File.exist?('go') }")
    zero = last(command, 0).pid
    command.signal(:URG)
    assert eventually { File.exist?(File.join(@directory, "resting")) }
    command.signal(:URG) # this one waits for its turn
    Process.kill(:KILL, zero)
    command.wait_for(/the refork is given up: Worker 0 \(PID: #{zero}\) has ended/)
    wait_for_workers(command, 4)
    File.write(File.join(@directory, "go"), "")
    command.wait_for(/Starting worker refork, phase: 2/)
    command.wait_for(/Worker 2 \(PID: \d+\) booted in \d+\.\d+s, phase: 2/)
    assert_equal 0, finish(command)
  end

  # The new ones have no other parent than the master, and end with it.
  def test_the_master_dies
    command = run_three
    command.signal(:URG)
    await_refork(command)
    command.signal(:KILL)
    [0, 1, 2].each { |index| assert gone?(last(command, index).pid) }
    command.wait
  end

  def test_the_first_dies_after_it
    command = run_three
    command.signal(:URG)
    await_refork(command)
    pids = [0, 1, 2].map { |index| last(command, index).pid }
    pids.each { |pid| Process.kill(:KILL, pid) }
    wait_for_workers(command, 8)
    pids.each { |pid| assert_match(/\(PID: #{pid}\) was killed by KILL/, command.text) }
    assert_equal 0, finish(command)
  end

  def test_a_worker_that_does_not_boot
    command = run_three("before_worker_boot { exit! 3 if File.exist?('broken') }")
    pids = [0, 1, 2].map { |index| last(command, index).pid }
    broken = File.join(@directory, "broken")
    File.write(broken, "")
    command.signal(:URG)
    command.wait_for(/the refork is given up: a worker of phase 1 did not boot; those of older phases continue/)
    File.delete(broken)
    pids.each { |pid| assert_equal pid, ask_worker(command, pid).first.to_i }
    command.signal(:URG)
    command.wait_for(/Worker 2 \(PID: \d+\) booted in \d+\.\d+s, phase: 2/)
    assert_equal 0, finish(command)
  end

  def test_a_stop_meanwhile
    command = run_three("before_refork { sleep 0.01 until File.exist?('go') }")
    command.signal(:URG)
    command.wait_for(/Starting worker refork/)
    File.write(File.join(@directory, "go"), "")
    assert_equal 0, finish(command)
  end

  def test_where_it_is_not_possible
    count, why = Abaca::Platform.here.has?(:subreaper) ? [1, "there are no other workers"] : [2, "this platform has no"]
    command = run_cluster(config: "workers #{count}\nfork_worker", count:)
    command.wait_for(/`fork_worker' has no effect: #{why}/)
    command.signal(:URG)
    command.wait_for(/refork called but not available/)
    assert_equal 0, finish(command)
  end
end
