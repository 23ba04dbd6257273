# frozen_string_literal: true

require "test_helper"
require "support/process_case"
require "support/server_case"

# Server#stop and #halt.
class FaultShutdownTest < Minitest::Test
  include ServerCase

  # No other deadline ends what the shutdown should end.
  PATIENT = { header_timeout: 60, body_timeout: 60, write_timeout: 60, persistent_timeout: 60, linger_timeout: 60,
              min_body_rate: 0, min_send_rate: 0 }.freeze

  def test_stop_without_connections
    running = serve
    assert eventually { running.server.stats }
    running.stop
    assert_raises(Errno::ECONNREFUSED) { connect(running) }
  end

  def test_stop_at_once
    10.times do
      running = serve
      running.stop
      assert_over(running)
    end
  end

  def test_stop_twice
    running = serve
    running.server.stop
    running.server.stop
    running.stop
    assert_over(running)
  end

  def test_requests_in_flight_are_answered
    gate = Queue.new
    running = serve(force_shutdown_after: 60) do
      gate.pop
      [200, TYPE.dup, ["answered"]]
    end
    clients = Array.new(20) { connect(running).write(GET) }
    assert eventually { gate.num_waiting == 20 }
    running.server.stop
    assert eventually { refused?(running) }, "new connections are still accepted"
    20.times { gate << true }
    clients.each do |client|
      response = client.read
      assert_equal "answered", response.body
      assert response.close?
      assert client.closed?
    end
    running.stop
  end

  def test_idle_connections_are_closed
    running = serve
    clients = Array.new(10) { connect(running) }
    clients.each { |client| assert client.usable? }
    running.server.stop
    clients.each { |client| assert client.closed? }
    running.stop
  end

  GRACE = 1 # seconds for which a connection stays open on which a request may be on its way

  # However long it has been idle, the client cannot know yet.
  def test_a_request_on_its_way_is_answered
    assert(eventually(within: 40) { answered_after_stop? })
  end

  def answered_after_stop?
    running = serve
    client = connect(running)
    refute client.call(GET).close?
    sleep 0.3 # idle
    asked_in_time?(client) do
      running.server.stop
      Thread.pass until refused?(running)
    end
  ensure
    running.stop
  end

  # Its head was sent before the stop, and has kept the connection.
  def test_a_request_on_its_way_behind_a_streamed_response_is_answered
    assert(eventually(within: 40) { answered_after_a_stream? })
  end

  def answered_after_a_stream?
    gate = Queue.new
    running = serve(force_shutdown_after: 60) do
      [200, TYPE.dup, Enumerator.new { |out| 2.times { out << gate.pop } }]
    end
    client = connect(running).write(GET)
    gate << "first,"
    assert_includes client.read_until("first,"), "200 OK"
    running.server.stop
    assert eventually { refused?(running) }
    asked_in_time?(client) do
      3.times { gate << "last" } # two are the next request's
      client.read_until("last\r\n0\r\n\r\n")
    end
  ensure
    running.stop
  end

  # Sends one more request after the block. A client that was not in time for it has seen nothing, and the answer is
  # false; one that was is answered, and told that the connection ends.
  def asked_in_time?(client)
    started = now
    yield
    client.write(GET)
    return false if now - started >= GRACE

    response = client.read
    assert_equal [200, true], [response.status, response.close?]
    assert client.closed?
    true
  rescue SystemCallError
    raise if now - started < GRACE

    false
  end

  # A body that is on its way belongs to a request in flight.
  def test_a_streamed_response_is_finished
    gate = Queue.new
    body = Enumerator.new do |out|
      out << "first,"
      gate.pop
      out << "last"
    end
    running = serve(force_shutdown_after: 60) { [200, TYPE.dup, body] }
    client = connect(running).write(GET)
    assert eventually { gate.num_waiting == 1 }
    running.server.stop
    gate << true
    assert_equal "first,last", client.read.body
    running.stop
  end

  # The app is done, the client is not: it still has to read the end of the response.
  def test_a_response_that_is_still_being_sent_is_finished
    running = serve(max_pending_output: 100_000_000, force_shutdown_after: 60) { [200, TYPE.dup, ["x" * 8_000_000]] }
    client = connect(running, receive_buffer: 16_384).write(GET)
    client.read_some(100)
    assert eventually { running.server.stats.values_at(:requests, :in_app) == [1, 0] }
    running.server.stop
    assert_operator client.drain.bytesize, :>, 8_000_000
    running.stop
  end

  def test_requests_that_do_not_end_are_broken_off
    raised = Queue.new
    running = serve(force_shutdown_after: 0.3) do
      sleep
    rescue Exception => e # rubocop:disable Lint/RescueException
      raised << e.class
      raise
    end
    client = connect(running).write(GET)
    assert eventually { running.server.stats.fetch(:in_app) == 1 }
    running.stop
    assert_equal Abaca::Shutdown, raised.pop
    assert_cut_off(client)
  end

  def test_halt_breaks_off
    raised = Queue.new
    running = serve do
      sleep
    ensure
      raised << true
    end
    clients = Array.new(5) { connect(running).write(GET) }
    assert eventually { running.server.stats.fetch(:in_app) == 5 }
    running.halt
    clients.each { |client| assert_cut_off(client) }
    assert_equal 5, raised.size
  end

  def test_halt_with_an_unread_response
    running = serve(force_shutdown_after: 60, **PATIENT) { [200, TYPE.dup, ["x" * 1_000_000] * 20] }
    client = connect(running, receive_buffer: 4_096).write(GET)
    client.read_some
    running.halt
    assert_over(running)
    assert_operator bytes_left(client), :<, 20_000_000
  end

  def test_halt_with_connections_in_every_state
    running = serve(force_shutdown_after: 60, **PATIENT) do |env|
      env["PATH_INFO"] == "/" ? [200, TYPE.dup, ["x"]] : sleep
    end
    clients = ["", GET, "GET / HT", "#{GET}GET /", "BAD\r\n\r\n", request("GET", "/wait"),
               request("POST", "/", "Content-Length" => "9"),
               request("POST", "/", "Content-Length" => "9", "Expect" => "100-continue")]
    clients.map! { |bytes| connect(running).write(bytes) }
    assert eventually { running.server.stats.fetch(:in_app).positive? }
    caught_up(running)
    running.halt
    assert_over(running)
    clients.each { |client| assert_operator bytes_left(client), :<, 1_000 }
  end

  # What an app leaves behind must not keep the server from stopping within its deadline.
  def test_stop_with_a_client_that_does_not_read
    running = serve(force_shutdown_after: 0.5, **PATIENT) { [200, TYPE.dup, ["x" * 1_000_000] * 20] }
    client = connect(running, receive_buffer: 4_096).write(GET)
    client.read_some
    running.stop
    assert_over(running)
    assert_operator bytes_left(client), :<, 20_000_000
  end

  def test_stop_with_half_a_request
    running = serve(force_shutdown_after: 0.5, **PATIENT)
    halves = ["GET / HTTP/1.1\r\nHo", "#{request("POST", "/", "Content-Length" => "10")}hel"]
    clients = halves.map { |bytes| connect(running).write(bytes) }
    caught_up(running)
    running.stop
    assert_over(running)
    clients.each { |client| assert_operator bytes_left(client), :<, 1_000 }
  end

  def test_a_server_runs_only_once
    running = serve
    running.stop
    assert_raises(Abaca::Error) { running.server.run }
  end

  def test_stats
    running = serve
    3.times { ask(running) }
    ask(running, "BAD\r\n\r\n")
    stats = nil
    counted = eventually { (stats = running.server.stats).values_at(:accepted, :requests, :errors) == [4, 3, 1] }
    assert counted, stats.inspect
    assert_operator stats.fetch(:received), :>, GET.bytesize * 3
    assert_operator stats.fetch(:sent), :>, 300
  end

  private

  # Nobody listens any more, and nothing is left of connections and requests.
  def assert_over(running)
    assert refused?(running)
    assert_equal [0, 0, 0], running.server.stats.values_at(:connections, :in_app, :waiting)
  end

  # What comes until the server ends the connection, one way or the other.
  def bytes_left(client)
    bytes = 0
    while (data = client.read_some)
      bytes += data.bytesize
    end
    bytes
  rescue Errno::ECONNRESET
    bytes
  end

  # Nothing that looks like a whole success; an error response is fine.
  def assert_cut_off(client)
    assert_includes 500..599, client.read.status
  rescue EOFError, Wire::Malformed, Errno::ECONNRESET => e
    assert e
  end
end

# The same through the command and signals.
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
  GET = ServerCase::GET

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
    run(lambda do |env|
      warn "begun"
      loop { nil } if env["PATH_INFO"] == "/hog"
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
    assert_equal 1, command.wait(within: 15).exitstatus
    assert_match(/the server does not end/, command.text)
    refute_path_exists File.join(@directory, "server.pid")
  end

  def test_a_request_that_computes_for_ever_does_not_keep_the_process
    command = run_abaca(HOG, config: "shutdown_timeout 0.2\n")
    connect(command.port).write("GET /hog HTTP/1.1\r\nHost: a.test\r\n\r\n")
    command.wait_for(/begun/)
    command.signal(:TERM)
    assert_equal 1, command.wait(within: 40).exitstatus
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
    10.times do |nth|
      command = run_abaca(SLOW)
      command.wait_for(/Abaca starting/)
      nothing_for(nth / 1000.0)
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
