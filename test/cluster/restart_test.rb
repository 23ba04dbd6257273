# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control/cli"
require "support/cluster_case"

# Phased restarts: new code, one worker after the other.
class ClusterRestartTest < Minitest::Test
  include ClusterCase

  CONFIG = "workers 2\npreload_app! false\ndirectory \"current\"\n"

  # Puts an app into a release, where `current` then leads.
  def release(name, rackup)
    path = File.join(@directory, name)
    Dir.mkdir(path)
    File.write(File.join(path, "config.ru"), rackup)
    link = File.join(@directory, "current")
    File.symlink(path, "#{link}.new")
    File.rename("#{link}.new", link)
  end

  def app(text) = "run ->(_env) { [200, { 'content-type' => 'text/plain' }, ['#{text}']] }"

  # Waits until every worker that runs is of this phase.
  def all_of?(command, phase)
    eventually { running(command).map(&:phase) == [phase, phase] }
  end

  def test_new_code
    release("one", app("one"))
    command = run_cluster("", config: CONFIG)
    load = Load.new(command.port)
    assert load.more?
    release("two", app("two"))
    command.signal(:USR1)
    assert all_of?(command, 1), command.text
    assert_equal "two", ask(command)
    assert load.more?
    assert_empty load.stop
    assert_equal [0, 1], running(command).map(&:index).sort
    assert_match(/Starting phased worker restart, phase: 1.*Stopping \d+ for phased upgrade/m, command.text)
    assert_equal 0, finish(command)
  end

  Old = Struct.new(:index, :phase, :state) do
    def pid = 1
    def booted? = state != :forked
    def active? = %i[forked booted].include?(state)
    def ended? = state == :ended
  end

  # Otherwise all old workers would end at the same time, with their requests.
  def test_the_next_worker_waits_until_the_last_one_has_ended
    old = Array.new(2) { |index| Old.new(index, 0, :booted) }
    forked = []
    fork = ->(index) { Old.new(index, 1, :forked).tap { |worker| forked << worker } }
    stop = ->(worker, _why) { worker.state = :stopping }
    workers = Struct.new(:all) { def active = all.select(&:active?) }.new(old)
    log = Abaca::Log.new(StringIO.new)
    restart = Abaca::Launcher::Cluster::PhasedRestart.new(workers, phase: 1, fork:, stop:, log:)
    restart.step
    forked[0].state = :booted
    3.times { restart.step }
    assert_equal [%i[stopping booted], [0]], [old.map(&:state), forked.map(&:index)]
    old[0].state = :ended
    restart.step
    assert_equal [0, 1], forked.map(&:index)
  end

  # Which move from worker to worker, and a request in flight does not end its connection either.
  def test_idle_connections_are_kept
    release("one", app("one"))
    command = run_cluster("", config: CONFIG)
    clients = Array.new(30) { connect(command.port) }
    clients.each { |client| assert_equal "one", client.call(GET).body }
    release("two", <<~APP)
      run(lambda do |env|
        env["rack.input"]&.read
        [200, { "content-type" => "text/plain" }, ["two"]]
      end)
    APP
    command.signal(:USR1)
    assert all_of?(command, 1), command.text
    clients.each do |client|
      response = client.call(GET)
      assert_equal ["two", false], [response.body, response.close?]
    end
    restart_in_flight(command, clients.first)
    assert_equal 0, finish(command)
  end

  # The rest of its body comes when its worker drains.
  def restart_in_flight(command, client)
    client.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 200000\r\n\r\n#{"x" * 100_000}")
    page = Abaca::Page.of(command.pid)
    assert(eventually { page.sums[:in_app] == 1 })
    command.signal(:USR1)
    assert(eventually { page.any? { |slot| slot.state == :draining && slot.figures[:in_app] == 1 } })
    response = client.write("x" * 100_000).read
    assert_equal ["two", false], [response.body, response.close?]
    assert all_of?(command, 2), command.text
    assert_equal "two", client.call(GET).body
  end

  def test_new_code_that_does_not_boot
    release("one", app("one"))
    command = run_cluster("", config: CONFIG)
    before = running(command)
    load = Load.new(command.port)
    release("two", "raise 'broken'")
    command.signal(:USR1)
    command.wait_for(/the phased restart is given up/)
    assert_equal before, running(command)
    assert_equal "one", ask(command)
    release("three", app("three"))
    command.signal(:USR1)
    assert all_of?(command, 2), command.text
    assert_equal "three", ask(command)
    assert_empty load.stop
    assert_equal 0, finish(command)
  end

  # Without a restart: workers that are forked from then on have the new code.
  def test_another_folder
    release("one", app("one"))
    control = "unix://#{@directory}/control"
    command = run_cluster("", config: "#{CONFIG}activate_control_app '#{control}', no_token: true\n")
    release("two", app("two"))
    words = ["-C", control, "-T", "none", "reload-worker-directory"]
    assert_equal 0, Abaca::Control::CLI.run(words, out: StringIO.new, env: {})
    command.wait_for(%r{\+ Changing to .*/current$})
    running(command).each { |worker| Process.kill(:KILL, worker.pid) }
    wait_for_workers(command, 4)
    assert_equal "two", ask(command)
    assert_equal 0, finish(command)
  end
end
