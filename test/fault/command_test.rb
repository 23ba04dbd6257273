# frozen_string_literal: true

require "test_helper"
require "support/process_case"

# How the command ends and boots: signals, exit, mistakes. It takes no mode from the environment, so it runs in one.
class FaultCommandTest < Minitest::Test
  include ProcessCase

  # They say when they have begun: a signal shall not come before.
  SLOW = <<~RUBY
    run(lambda do |env|
      warn "begun"
      sleep Float(env["QUERY_STRING"]) unless env["QUERY_STRING"].empty?
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY
  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"

  def test_term_answers_what_is_in_flight_and_exits_with_0
    %i[TERM INT].each do |name|
      command = run_abaca(SLOW)
      idle = connect(command.port)
      assert_equal "done", idle.call(GET).body
      clients = Array.new(5) { connect(command.port).write("GET /?0.5 HTTP/1.1\r\nHost: a.test\r\n\r\n") }
      command.wait_for(/(begun.*){6}/m)
      command.signal(name)
      assert idle.closed?
      assert_equal ["done"] * 5, clients.map { |client| client.read.body }
      assert_equal 0, command.wait.exitstatus
      assert_raises(Errno::ECONNREFUSED) { connect(command.port) }
    end
  end

  def test_a_second_signal_ends_at_once
    command = run_abaca(SLOW)
    connect(command.port).write("GET /?60 HTTP/1.1\r\nHost: a.test\r\n\r\n")
    command.wait_for(/begun/)
    command.signal(:TERM)
    command.wait_for(/Gracefully stopping/)
    refute command.ended?
    command.signal(:TERM)
    assert command.wait.exited?
  end

  def test_the_shutdown_deadline
    command = run_abaca(SLOW, config: "force_shutdown_after 0.3\n")
    connect(command.port).write("GET /?60 HTTP/1.1\r\nHost: a.test\r\n\r\n")
    command.wait_for(/begun/)
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end

  # A fiber that never waits cannot be broken off, and keeps the loop from doing anything.
  HOG = <<~RUBY
    require "support/computing"
    run(lambda do |env|
      warn "begun"
      Computing::STEP.call(1_000) while env["PATH_INFO"] == "/hog"
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY

  # A server that is the guest of a scheduler has 20 seconds from the second signal on: that is not waited for.
  def test_the_third_signal_does_not_wait_for_anything
    scheduler = File.expand_path("../support/plain_scheduler.rb", __dir__)
    command = run_abaca(HOG, "--pidfile", "server.pid", "--fiber-scheduler", "PlainScheduler",
                        config: "require #{scheduler.dump}\n")
    connect(command.port).write("GET /hog HTTP/1.1\r\nHost: a.test\r\n\r\n")
    command.wait_for(/begun/)
    command.signal(:TERM)
    command.wait_for(/Gracefully stopping/)
    command.signal(:TERM)
    command.wait_for(/Stopping immediately/)
    refute command.ended?
    command.signal(:TERM)
    assert_equal 1, command.wait.exitstatus
    assert_match(/the server does not end/, command.text)
    refute_path_exists File.join(@directory, "server.pid")
  end

  def test_a_request_that_computes_for_ever_does_not_keep_the_process
    command = run_abaca(HOG, config: "shutdown_timeout 0.2\n")
    connect(command.port).write("GET /hog HTTP/1.1\r\nHost: a.test\r\n\r\n")
    command.wait_for(/begun/)
    command.signal(:TERM)
    assert_equal 1, command.wait.exitstatus
    assert_match(/the server does not end/, command.text)
  end

  # A signal while the process boots ends it too, whatever Ruby makes of it, and does not crash it. In its
  # first milliseconds, before any code of ours, Ruby loses one of forty: whoever stops it asks again.
  def test_signals_while_booting
    [0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3].each do |delay|
      command = run_abaca("sleep 0.05\n#{SLOW}")
      nothing_for(delay)
      command.signal(:TERM)
      command.signal(:TERM) unless eventually(within: 5) { command.ended? }
      status = command.wait
      assert_includes [nil, Signal.list["TERM"]], status.termsig, command.text
    end
  end

  # From the first line of the banner on no signal is lost.
  def test_a_signal_right_behind_the_banner
    5.times do |nth|
      command = run_abaca(SLOW)
      command.wait_for(/Abaca starting/)
      nothing_for(nth / 500.0)
      command.signal(:TERM)
      assert_includes [nil, Signal.list["TERM"]], command.wait.termsig, command.text
    end
  end

  def test_signals_without_meaning_change_nothing
    command = run_abaca(SLOW)
    client = connect(command.port)
    client.write("GET /?0.5 HTTP/1.1\r\nHost: a.test\r\n\r\n")
    50.times do
      command.signal(:WINCH)
      command.signal(:USR1)
      command.signal(:CONT)
      command.signal(:PIPE)
      sleep 0.002
    end
    assert_equal "done", client.read.body
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end

  def test_the_children_of_the_app_are_its_own
    command = run_abaca(<<~RUBY)
      run(lambda do |env|
        text = env["PATH_INFO"] == "/system" ? system("exit 3").inspect + $?.exitstatus.to_s : `echo out`.strip
        [200, { "content-type" => "text/plain" }, [text]]
      end)
    RUBY
    client = connect(command.port)
    assert_equal "false3", client.call("GET /system HTTP/1.1\r\nHost: a.test\r\n\r\n").body
    assert_equal "out", client.call(GET).body
  end

  # A forked child has neither the loop nor the parent's connections.
  def test_fork_in_a_request
    command = run_abaca(<<~RUBY)
      run(lambda do |_env|
        reader, writer = IO.pipe
        pid = fork do
          writer.write("child")
          exit!(0)
        end
        writer.close
        text = reader.read
        Process.wait(pid)
        [200, { "content-type" => "text/plain" }, [text]]
      end)
    RUBY
    client = connect(command.port)
    3.times { assert_equal "child", client.call(GET).body }
    assert_equal "child", connect(command.port).call(GET).body
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end

  # `exit` in the app means the process: it ends in order, and with that status.
  def test_exit_in_a_request
    command = run_abaca(<<~RUBY)
      run(lambda do |env|
        exit(3) if env["PATH_INFO"] == "/exit"
        [200, { "content-type" => "text/plain" }, ["done"]]
      end)
    RUBY
    client = connect(command.port)
    assert_equal "done", client.call(GET).body
    assert_equal [], successes(connect(command.port), "GET /exit HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert_equal 3, command.wait.exitstatus
  end

  # What others are at ends with the process; they are told.
  def test_exit_answers_who_is_in_the_app_and_who_waits
    app = <<~RUBY
      run(lambda do |env|
        warn "in the app"
        sleep unless env["PATH_INFO"] == "/exit"
        sleep 0.01 until File.exist?("exit")
        exit(3)
      end)
    RUBY
    command = run_abaca(app, config: "max_fibers 2\nliveness '/livez'\n")
    clients = ["/exit", "/", "/"].each.with_index(1).map do |path, nth|
      connect(command.port).write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n").tap do
        command.wait_for(/(in the app.*){#{nth}}/m) if nth < 3
      end
    end
    # This one comes behind the one that waits.
    assert_equal 200, connect(command.port).call("GET /livez HTTP/1.1\r\nHost: a.test\r\n\r\n").status
    File.write(File.join(@directory, "exit"), "")
    assert_equal [500, 503, 503], clients.map { |client| client.read.status }
    assert_equal 3, command.wait.exitstatus
  end

  def test_exit_at_once_in_a_request
    command = run_abaca("run(->(_env) { exit!(4) })")
    connect(command.port).write(GET)
    assert_equal 4, command.wait.exitstatus
  end

  BOOT_ERRORS = {
    "no rackup file" => [%w[nowhere.ru], /nowhere\.ru/],
    "an unknown flag" => [%w[--no-such-flag], /no-such-flag/],
    "a bad address" => [%w[-b tcp://127.0.0.1:99999], /99999|port/],
    "an address that is not ours" => [%w[-b tcp://203.0.113.1:0], /203\.0\.113\.1/],
    "a scheme that is none" => [%w[-b ftp://x], /ftp/],
    "a configuration that is not there" => [%w[-C missing.rb], /missing\.rb/]
  }.freeze

  BOOT_ERRORS.each do |name, (words, pattern)|
    define_method("test_boot_with_#{name.tr(' ', '_')}") do
      File.write(File.join(@directory, "config.ru"), SLOW)
      assert_boot_error(start_abaca(*words), pattern)
    end
  end

  def test_boot_on_a_taken_port
    port = run_abaca(SLOW).port
    assert_boot_error(start_abaca("-b", "tcp://127.0.0.1:#{port}"), /#{port}.*in use/)
    assert_equal "done", connect(port).call(GET).body
  end

  def test_boot_with_a_broken_rackup
    { "run(" => /config\.ru/, "raise 'broken app'" => /broken app/, "require 'no/such/library'" => %r{no/such/library},
      "1 + 1" => /run/ }.each do |rackup, pattern|
      assert_boot_error(run_abaca(rackup), pattern)
    end
  end

  def test_boot_with_an_unknown_setting_names_the_line
    assert_boot_error(run_abaca(SLOW, config: "\n\nno_such_setting 1\n"), /settings\.rb:3/)
  end

  private

  # The complete successful responses to `bytes`; whatever else comes is not looked at.
  def successes(client, bytes)
    [client.call(bytes).status] - (500..599).to_a
  rescue EOFError, Wire::Malformed, Errno::ECONNRESET
    []
  end

  def assert_boot_error(command, pattern)
    status = command.wait
    assert_equal 1, status.exitstatus, command.text
    assert_match(pattern, command.text)
    assert_operator command.said.lines.size, :<=, 3, "more than a clear line: #{command.text}"
  end
end
