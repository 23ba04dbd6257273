# frozen_string_literal: true

require "test_helper"
require "json"
require "cli/command"
require "abaca"
require "abaca/control"
require "abaca/control/cli"

# The command with a control server, and `abacactl`, as processes.
class ControlProcessTest < Minitest::Test
  include Command

  CONFIG = <<~RUBY
    port 0
    state_path "state"
    pidfile "pid"
    activate_control_app "unix://control.sock", auth_token: "secret"
  RUBY
  APP = <<~'RUBY'
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/burn" then $stderr.write("begun\n") && (nil until File.exist?("go"))
      when "/stats" then return [200, {}, [Abaca.stats]]
      end
      [200, {}, ["done"]]
    end)
  RUBY

  def serve(config = CONFIG, *words)
    file("config.ru", APP)
    file("config/abaca.rb", config)
    start(*words).tap(&:port)
  end

  # Runs abacactl in the server's folder.
  def abacactl(*words) = run_command(*words, executable: "abacactl")

  # The same in this process, which is quicker; it knows the state file only.
  def ask(*words)
    out = StringIO.new
    err = StringIO.new
    status = Abaca::Control::CLI.run(["-S", "#{@dir}/state", *words], out:, err:, env: {})
    Ended.new(status, out.string, err.string)
  end

  def stats
    ended = ask("-Q", "stats")
    assert_equal [0, ""], [ended.status, ended.err]
    assert_equal 1, ended.out.lines.size
    JSON.parse(ended.out)
  end

  def mode(name) = File.stat("#{@dir}/#{name}").mode & 0o777

  def test_a_single_process_from_start_to_stop
    server = serve
    assert_match(%r{^\* Starting control server on unix://#{@dir}/control\.sock$}, server.output)
    assert_equal [0o600, 0o600], [mode("state"), mode("control.sock")]
    assert_equal ["---", "pid: #{server.pid}", "control_url: unix://#{@dir}/control.sock",
                  "control_auth_token: secret", "running_from: \"#{@dir}\""],
                 File.readlines("#{@dir}/state", chomp: true)
    seen = JSON.parse(server.get("/stats").body)
    assert_equal [1000, 1], seen.values_at("max_threads", "requests_count")
    ended = abacactl("-Q", "stats")
    assert_equal ["", seen.keys], [ended.err, JSON.parse(ended.out).keys]
    assert_equal "Command gc sent success\n", abacactl("-S", "state", "gc").out
    assert_match(/403|wrong auth token/, abacactl("-C", "unix://control.sock", "-T", "wrong", "stop").err)
    assert_equal "Command stop sent success\n", abacactl("stop").out
    assert_equal 0, server.wait.exitstatus
    assert_match(/^\* Control server: stop$/, server.output)
    assert_equal %w[config config.ru], Dir.children(@dir).sort
    assert_equal [1, "", "State file not found: #{@dir}/state\n"], abacactl("status").to_a
  end

  # The new program has a control server of its own, in the same place. Nobody reads its token in the log.
  def test_restarted
    server = serve(CONFIG, "--control-token", "secret")
    server.get("/")
    assert_equal 1, stats.fetch("requests_count")
    assert_equal "Command restart sent success\n", ask("restart").out
    begun = server.wait_for(/^\* Restarting: /).end(0)
    server.wait_for(/Use Ctrl-C/, after: begun)
    assert_equal "pid: #{server.pid}", File.readlines("#{@dir}/state", chomp: true)[1]
    assert_equal 0, stats.fetch("requests_count")
    assert_equal "Command stop sent success\n", ask("stop").out
    assert_equal 0, server.wait.exitstatus
    assert_match(/^\* Restarting: .* --control-token \*{3}$/, server.output)
    refute_match(/secret/, server.output)
    assert_equal %w[config config.ru], Dir.children(@dir).sort
  end

  # At each moment of a restart the files name a server, which answers.
  def test_commands_while_it_restarts
    server = serve("#{CONFIG}workers 1\n")
    server.wait_for(/booted/)
    file("config.ru", "File.write(\"boot\#{Process.pid}\", '')\nsleep 0.01 until File.exist?('go')\n#{APP}")
    assert_equal "Command restart sent success\n", ask("restart").out
    in_child = nil
    assert eventually { in_child = Dir["#{@dir}/boot*"].first }
    check_restarting(server) # in the stand-in
    file("go", "")
    server.wait_for(/^.*\* Restarting: /)
    File.delete("#{@dir}/go", in_child)
    assert eventually { Dir["#{@dir}/boot*"].any? }
    check_restarting(server) # in the process
    file("go", "")
    # Once more, since it was asked for meanwhile.
    server.wait_for(/Restarting: .*Restarting: /m)
    ended = ask("stop")
    assert_equal ["Command stop sent success\n", ""], [ended.out, ended.err]
    assert_equal 0, server.wait.exitstatus
    assert_equal %w[config config.ru], Dir.children(@dir).grep_v(/boot|go/).sort
  end

  # A request that never waits keeps the loop, and all others with it.
  def test_answers_in_a_stall
    server = serve("#{CONFIG}spare_loops 0\n")
    request = Thread.new { server.get("/burn").body }
    server.wait_for(/^begun$/)
    found = stats
    assert_equal [1, 0, 999], found.values_at("busy_threads", "backlog", "pool_capacity")
    assert_match(%r{^request .* GET /burn .* runs at \S*config\.ru:3}, ask("-Q", "dump").out)
    assert_match(/config\.ru:3/, ask("-Q", "thread-backtraces").out)
    file("go", "")
    assert_equal "done", request.value
  ensure
    file("go", "")
    request&.join
  end

  # A process that has to be ended because its server does not end leaves no file either.
  def test_halted_in_a_stall
    server = serve("#{CONFIG}shutdown_timeout :immediately\n")
    socket = TCPSocket.new("127.0.0.1", server.port)
    socket.write("GET /burn HTTP/1.1\r\nHost: a\r\n\r\n")
    server.wait_for(/^begun$/)
    3.times { ask("stop") }
    assert_equal 1, server.wait.exitstatus
    assert_equal %w[config config.ru], Dir.children(@dir).sort
  ensure
    socket&.close
  end

  def check_restarting(server)
    assert_equal "Abaca is started\n", ask("status").out
    assert_equal server.pid, File.read("#{@dir}/pid").to_i
    %w[restart phased-restart].each do |command|
      ended = ask(command)
      assert_equal ["Abaca is restarting\n", ""], [ended.out, ended.err]
    end
    assert_equal "", ask("stats").err
  end

  # By TCP, a token of its own, and figures only; `start` has become the server.
  def test_started_by_abacactl
    file("config.ru", APP)
    words = ["-S", "state", "-C", "tcp://127.0.0.1:0", "-F", file("c.rb", "port 0\n"), "start"]
    server = start(*words, executable: "abacactl").tap(&:port)
    assert_match(%r{^control_url: tcp://127\.0\.0\.1:[1-9]\d*\ncontrol_auth_token: \h{32}$}, File.read("#{@dir}/state"))
    assert_equal "Abaca is started\n", ask("status").out
    assert_equal "Command halt sent success\n", ask("halt").out
    assert_equal 0, server.wait.exitstatus
    refute_path_exists "#{@dir}/state"
  end

  def test_what_does_not_start
    file("config.ru", APP)
    UNIXServer.open("#{@dir}/taken") do
      assert_match(%r{cannot listen on unix://#{@dir}/taken for the control server: },
                   assert_fails("-p", "0", "--control-url", "unix://taken"))
    end
    assert_match(/no TLS/, assert_fails("-p", "0", "--control-url", "ssl://127.0.0.1:1"))
    open_to_all = ["--control-url", "tcp://0.0.0.0:0", "--control-token", "none"]
    assert_match(/a token is needed/, assert_fails("-p", "0", *open_to_all))
    assert_match(%r{state_path: cannot write none/state: }, assert_fails("-p", "0", "-S", "none/state"))
  end
end
