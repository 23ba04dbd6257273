# frozen_string_literal: true

require "test_helper"
require_relative "control_case"

# `abacactl` in this process: where it looks for a server, what it sends, and what it says.
class ControlCLITest < Minitest::Test
  include ControlCase

  WAYS = Control::WAYS

  # A server with a token, and a state file that has it.
  def state
    @state ||= begin
      address = control(token: "secret")
      Control::StateFile.new("#{@dir}/state").write(control_url: address.to_s, token: "secret")
      "#{@dir}/state"
    end
  end

  # The signals that a process got, as this one does: each is noted, and has no other effect.
  def signals(*names)
    noted = []
    before = names.to_h { |name| [name, trap(name) { noted << name }] }
    yield
    assert(eventually { noted.size == names.size })
    noted
  ensure
    before.each { |name, handler| trap(name, handler || "DEFAULT") }
  end

  def assert_fails(message, *words)
    status, out, err = abacactl(*words)
    assert_equal [1, ""], [status, out]
    assert_match message, err
    assert_equal 1, err.lines.size
  end

  def test_commands_by_control_server
    %w[stop halt restart gc].each do |command|
      assert_equal [0, "Command #{command} sent success\n", ""], abacactl("-S", state, command)
    end
    assert_equal %i[stop halt restart], launcher.calls
    assert_equal [0, "Abaca is started\n", ""], abacactl("status", "-S", state)
    assert_equal [0, "", ""], abacactl("-Q", "-S", state, "gc")
    status, out, = abacactl("-S", state, "stats")
    assert_equal [0, launcher.stats], [status, JSON.parse(out, symbolize_names: true)]
    worker, = JSON.parse(abacactl("-Q", "-S", state, "workers")[1]).fetch("workers")
    assert_equal [0, Process.pid], worker.values_at("index", "pid")
    %w[gc-stats thread-backtraces].each { |command| assert_equal 1, abacactl("-S", state, command)[1].lines.size }
  end

  def test_refusals_of_the_server
    assert_fails(/\ACommand error: { "error": "phased_restart not available" }$/, "-S", state, "phased-restart")
    url = "unix://#{@dir}/control.sock"
    assert_fails(/\AUnauthorized access to server \(wrong auth token\)$/, "-C", url, "-T", "wrong", "stop")
    assert_equal 0, abacactl("-C", url, "-T", "secret", "stats").first
    launcher.define_singleton_method(:stats) { raise "no figures" }
    assert_fails(/\ABad response from server: 500$/, "-S", state, "stats")
    assert_empty launcher.calls
  end

  def test_a_link_for_a_browser
    address = control("tcp://127.0.0.1:0", token: "secret")
    words = ["-C", address.to_s, "-T", "secret", "dashboard"]
    status, out, err = abacactl(*words)
    assert_equal [0, ""], [status, err]
    assert_match(%r{\Ahttp://127\.0\.0\.1:#{address.port}/open\?code=\h{64}#\h{64}\n\z}, out)
    refute_equal out, abacactl(*words)[1]
    assert_fails(/\AA browser needs a port: activate_control_app "tcp:/, "-S", state, "dashboard")
  end

  # A terminal gets a table, everything else a line of JSON.
  def test_for_a_terminal
    out = StringIO.new
    out.define_singleton_method(:tty?) { true }
    assert_equal 0, Control::CLI.run(["-Q", "-S", state, "workers"], out:, err: StringIO.new, env: {})
    assert_match(/\Aworkers \(1\)\nstarted_at +pid/, out.string)
    assert_equal 1, abacactl("-Q", "-S", state, "workers")[1].lines.size
  end

  def test_a_token_that_allows_less
    control(token: "secret", others: { read: "looks" })
    url = "unix://#{@dir}/control.sock"
    assert_equal 0, abacactl("-C", url, "-T", "looks", "stats").first
    assert_fails(/\AUnauthorized access to server: Not allowed with this token$/, "-C", url, "-T", "looks", "stop")
    assert_empty launcher.calls
  end

  def test_commands_by_process_id
    expected = { "stop" => "TERM", "halt" => "QUIT", "restart" => "USR2", "phased-restart" => "USR1",
                 "refork" => "URG", "reopen-log" => "HUP", "worker-count-up" => "TTIN", "worker-count-down" => "TTOU",
                 "info" => Signal.list.key?("INFO") ? "INFO" : "PWR" }
    assert_equal(expected, WAYS.transform_values(&:signal).compact)
    signals("USR1", "TTIN") do
      assert_equal [0, "Command phased-restart sent success\n", ""], abacactl("-p", Process.pid.to_s, "phased-restart")
      # Not for the control server, though there is one.
      assert_equal [0, "Command worker-count-up sent success\n", ""], abacactl("-S", state, "worker-count-up")
    end
    File.write("#{@dir}/pid", "#{Process.pid}\n")
    assert_equal [0, "Abaca is started\n", ""], abacactl("-P", "#{@dir}/pid", "status")
    %w[gc gc-stats stats thread-backtraces reload-worker-directory reload-certificates workers dump config fibers pools
       set log-level dashboard requests events history].each do |command|
      assert_fails(/\A'#{command}' not available via pid only: it needs a control server \(activate_control_app\)$/,
                   "-p", Process.pid.to_s, command)
    end
  end

  def test_processes_that_are_not_there
    gone = fork { exit! }
    Process.wait(gone)
    assert_fails(/\ANo pid '#{gone}' found$/, "-p", gone.to_s, "stop")
    assert_fails(/\AAbaca is not running$/, "-p", gone.to_s, "status")
    assert_fails(/\ANeither pid nor control url available$/, "-F", "-", "stop")
    assert_fails(/\ANo process id in /, "-P", "#{@dir}/none", "stop")
    assert_fails(/\AState file not found: /, "-S", "#{@dir}/none", "stats")
    assert_fails(%r{\Ano control server on unix:///none: }, "-C", "unix:///none", "-T", "none", "stats")
    assert_fails(/\Ano control server on /, "-C", "unix:///#{'a' * 200}", "-T", "none", "stats")
    assert_fails(/no TLS/, "-C", "ssl://127.0.0.1:1", "-T", "none", "stats")
    assert_fails(/its socket has another name; use the state file/, "-C", "auto", "-T", "none", "stats")
  end

  # Neither a server that hangs up, nor one that speaks something else, is an answer.
  def test_other_servers
    ["", "SSH-2.0-OpenSSH\r\n"].each_with_index do |text, i|
      UNIXServer.open("#{@dir}/other#{i}") do |other|
        thread = Thread.new do
          peer = other.accept
          peer.readpartial(100)
          peer.write(text)
          peer.close
        end
        assert_fails(/\Athe server closed the connection$/, "-C", "unix://#{@dir}/other#{i}", "-T", "none", "gc")
        thread.join
      end
    end
  end

  def test_mistakes
    assert_fails(/\AAvailable commands: start, status, stop, /)
    assert_fails(/\AInvalid command: stopp$/, "stopp")
    assert_fails(/\AOne command only, not stop and halt$/, "stop", "halt")
    assert_fails(/\AUsage: abacactl worker-gc NUMBER$/, "worker-gc")
    assert_fails(/\AUsage: abacactl set \[NAME=VALUE\]$/, "set", "a=1", "b=1")
    assert_fails(/\Ainvalid option: --nonsense$/, "--nonsense", "stop")
    assert_fails(/\Ainvalid argument: -p x$/, "-p", "x", "stop")
  end

  def test_help_and_version
    status, out, = abacactl("--help")
    assert_equal 0, status
    assert_empty(WAYS.keys.reject { |command| out.match?(/[ ,]#{command}\b/) })
    assert_equal [0, "abacactl version #{Abaca::VERSION}\n", ""], abacactl("-V")
  end

  # What it takes from configuration files, relative paths as seen from the server's folder.
  def test_a_configuration_file
    state
    config = "#{@dir}/abaca.rb"
    File.write(config, "directory #{@dir.dump}\nstate_path \"state\"\n")
    assert_equal [0, "Abaca is started\n", ""], abacactl("-F", config, "status")
    File.write(config, "activate_control_app \"unix://#{@dir}/control.sock\", auth_token: \"secret\"\n")
    assert_equal [0, "Command gc sent success\n", ""], abacactl("-F", config, "gc")
    File.write(config, "pidfile #{"#{@dir}/pid".dump}\n")
    File.write("#{@dir}/pid", Process.pid)
    assert_equal [0, "Abaca is started\n", ""], abacactl("-F", config, "status")
    File.write(config, "no_such_setting 1\n")
    assert_fails(/abaca\.rb:1: unknown setting `no_such_setting'/, "-F", config, "status")
  end
end
