# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "abaca/control"
require "support/cluster_case"
require "support/shim"

# When no thread can be created (pids.max, the address space), a server still does what signals and the control server
# ask for: what needs a thread says so, and can be tried again.
class FaultNoThreadsTest < Minitest::Test
  include ClusterCase
  include Shim

  APP = <<~RUBY
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/wait" then sleep 60
      when "/loop"
        $stdout.puts("computes")
        loop { nil }
      end
      [200, { "content-type" => "text/plain" }, ["fine"]]
    end)
  RUBY
  WAITING = "GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\n"
  FILES = %w[pid control state].freeze
  CONFIG = <<~RUBY
    pidfile "pid"
    state_path "state"
    activate_control_app "unix://control", { auth_token: "secret" }
  RUBY
  KINDS = {
    "fibers" => "", "threads" => "mode :thread\nthreads 1, 4",
    "a_guest" => "require #{File.expand_path('../support/plain_scheduler.rb', __dir__).dump}\n" \
                 "fiber_scheduler 'PlainScheduler'",
    "workers" => "workers 2\npreload_app! false"
  }.freeze

  KINDS.each do |kind, config|
    define_method("test_term_with_#{kind}") do
      with_server(config) do |command|
        no_threads
        assert_equal 0, finish(command), command.text
        assert_nothing_left(command)
      end
    end

    # One that waits would have 30 seconds.
    define_method("test_a_second_term_with_#{kind}") do
      with_server(config) do |command|
        client = waiting(command)
        no_threads
        command.signal(:TERM)
        command.wait_for(/Gracefully/)
        command.signal(:TERM)
        assert_equal 503, client.read.status
        assert_equal 0, command.wait.exitstatus, command.text
        assert_nothing_left(command)
      end
    end
  end

  # It computes, so that the server does not end.
  def test_a_third_term
    with_server("") do |command|
      connect(command.port).write("GET /loop HTTP/1.1\r\nHost: a.test\r\n\r\n")
      command.wait_for(/computes/)
      no_threads
      [/Gracefully/, /Stopping immediately/].each do |line|
        command.signal(:TERM)
        command.wait_for(line)
      end
      command.signal(:TERM)
      assert_equal 1, command.wait.exitstatus, command.text
      assert_nothing_left(command)
    end
  end

  KINDS.slice("fibers", "workers").each do |kind, config|
    define_method("test_a_restart_with_#{kind}") do
      with_server(config) do |command|
        no_threads
        1.upto(2) do |nth|
          command.signal(:USR2)
          command.wait_for(/(the restart failed: can't create Thread: [^;]*; this program serves on.*){#{nth}}/m)
        end
        assert_equal "fine", ask(command)
        File.delete(switch)
        command.signal(:USR2)
        command.wait_for(/Use Ctrl-C.*Use Ctrl-C/m)
        assert_equal 0, finish(command), command.text
        assert_nothing_left(command)
      end
    end
  end

  # Neither in the watch nor in the server.
  def test_a_command_of_the_control_server
    with_server("") do |command|
      client = Abaca::Control::Client.new("unix://#{@directory}/control")
      asks = -> { assert_equal 200, client.call("GET", "/stats", token: "secret").status }
      asks.call # when the watch has all of its threads
      no_threads
      2.times { asks.call }
      assert_equal 200, client.call("POST", "/stop", token: "secret").status
      assert_equal 0, command.wait.exitstatus, command.text
      assert_nothing_left(command)
    end
  end

  private

  def switch = File.join(@directory, "no-threads")

  def no_threads = File.write(switch, "")

  def with_server(config)
    with_shim("no_threads") do
      command = run_abaca(APP, config: "#{CONFIG}#{config}")
      command.wait_for(/Use Ctrl-C/)
      wait_for_workers(command, 2) if config.start_with?("workers")
      assert_equal "fine", ask(command)
      yield command
    end
  end

  # A client whose request is in the app.
  def waiting(command)
    client = connect(command.port).write(WAITING)
    sleep 0.3
    client
  end

  def assert_nothing_left(command)
    assert_match(/Goodbye|ends without it/, command.text)
    FILES.each { |name| refute_path_exists File.join(@directory, name) }
  end
end
