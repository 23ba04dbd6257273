# frozen_string_literal: true

require "test_helper"
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

  # Runs `abacactl` here; returns its status, and what it wrote to both.
  def abacactl(*words)
    out = StringIO.new
    err = StringIO.new
    [Abaca::Control::CLI.run(["-Q", "-S", "#{@directory}/state", *words], out:, err:, env: {}), out.string, err.string]
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

  # What a worker does not have cannot outlive the master in it.
  def test_workers_let_go_of_the_control_server
    command = run_cluster(APP, config: CONFIG)
    path = "#{@directory}/control.sock"
    assert holds?(command.pid, path)
    refute(booted(command).any? { |worker| holds?(worker.pid, path) })
    assert_equal [1, "", "Command error: { \"error\": \"phased_restart not available\" }\n"], abacactl("phased-restart")
    assert_equal [1, "", "Command error: { \"error\": \"dump not available\" }\n"], abacactl("dump")
    stop(command)
  end

  def test_a_phased_restart
    command = run_cluster(APP, config: "#{CONFIG}preload_app! false\n")
    assert_equal 0, abacactl("phased-restart").first
    wait_for_workers(command, 4)
    stop(command)
  end
end
