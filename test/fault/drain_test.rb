# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/server_case"
require "tmpdir"

# What becomes of requests while the server stops: whoever has asked gets an answer.
class FaultDrainTest < Minitest::Test
  include ServerCase

  def test_readiness_goes_first
    running = serve(readiness: "/readyz", liveness: "/livez", shutdown_delay: 3)
    probe = connect(running)
    assert_equal [200, 200], health(probe)
    running.server.stop
    assert(eventually { health(probe) == [503, 200] })
    # Everything else goes on, with new connections and kept ones.
    assert_equal "hello\n", ask(running).body
    refute probe.call(GET).close?
    running.stop
    assert_raises(Errno::ECONNREFUSED) { connect(running) }
    assert_equal 0, running.server.stats.fetch(:in_app)
    assert_operator running.server.stats.fetch(:probes), :>=, 4
  end

  def test_health_paths_do_not_come_to_the_app
    paths = Queue.new
    running = serve(readiness: "/readyz", lint: false) do |env|
      paths << env["PATH_INFO"]
      HELLO.call(env)
    end
    ask(running, request("GET", "/readyz?x=1"))
    ask(running, request("POST", "/readyz", body: "x"))
    ask(running, request("GET", "/livez"))
    assert_equal(["/readyz", "/livez"], Array.new(2) { paths.pop })
    assert_empty paths
  end

  # The engine's standby answers in place of a loop that a request keeps.
  def test_health_while_a_request_computes
    done = false
    running = serve(liveness: "/livez") do |env|
      limit = now + 20
      nil while env["PATH_INFO"] == "/burn" && !done && now < limit
      HELLO.call(env)
    end
    skip "a foreign scheduler has no standby" unless running.server.native?
    probe = connect(running)
    probe.call(request("GET", "/livez"))
    burner = connect(running).write(request("GET", "/burn"))
    assert eventually { running.server.stats[:in_app] == 1 }
    assert_equal 200, probe.call(request("GET", "/livez")).status
    assert_equal 200, ask(running, request("GET", "/livez")).status
    assert_equal 1, running.server.stats[:in_app], "it was answered only when the other request was done"
    done = true
    assert_equal 200, burner.read.status
  end

  def test_a_halt_does_not_wait_for_the_delay
    running = serve(readiness: "/readyz", shutdown_delay: 60)
    probe = connect(running)
    assert_equal 200, probe.call(request("GET", "/readyz")).status
    running.server.stop
    assert(eventually { probe.call(request("GET", "/readyz")).status == 503 })
    running.halt
    assert refused?(running)
  end

  # The kernel may hold a connection back until something comes on it, for a second.
  [true, false].each do |defer_accept|
    define_method(:"test_a_silent_connection_hears_of_the_end_#{defer_accept}") do
      running = serve(defer_accept:)
      ask(running)
      client = connect(running)
      running.server.stop
      assert_predicate client, :closed?
      assert running.thread.join(15)
    end

    define_method(:"test_a_silent_connection_and_a_server_without_time_#{defer_accept}") do
      running = serve(defer_accept:, shutdown_timeout: 0.1)
      client = connect(running)
      running.server.stop
      assert running.thread.join(15)
      client.close
    end
  end

  def test_requests_that_wait_for_a_fiber_are_answered
    gate = Queue.new
    running = serve(**ServerCase.at_once(1), shutdown_timeout: 60) do
      gate.pop
      [200, TYPE.dup, ["answered"]]
    end
    clients = Array.new(3) { connect(running) }
    clients.each { |client| client.write(GET) }
    assert eventually { here(running) == 3 }
    running.server.stop
    3.times { gate << true }
    assert_equal %w[answered] * 3, clients.map { |client| client.read.body }
    running.stop
  end

  # The same when time runs out: 503 for each, whether it was begun or not.
  def test_requests_get_503_when_time_runs_out
    running = serve(**ServerCase.at_once(2), shutdown_timeout: 0.2) { sleep }
    begun = Array.new(2) { connect(running).write(GET) }
    assert eventually { running.server.stats[:in_app] == 2 }
    half = connect(running).write("GET / HTTP/1.1\r\nHost: a")
    caught_up(running)
    running.server.stop
    assert_equal [503, 503], begun.map { |client| client.read.status }
    half.write(".test\r\n\r\n")
    assert_includes [503, :gone], status_of(half)
    running.stop
    assert_match(/the shutdown does not wait any longer: 2 requests are broken off/, running.log)
  end

  def test_requests_that_wait_get_503_when_time_runs_out
    running = serve(**ServerCase.at_once(1), shutdown_timeout: 0.2) { sleep }
    clients = Array.new(3) { connect(running) }
    clients.each_with_index do |client, i|
      client.write(GET)
      assert(eventually { here(running) == i + 1 })
    end
    running.server.stop
    assert_equal [503] * 3, clients.map { |client| client.read.status }
    running.stop
    assert_match(/ requests.* are broken off/, running.log)
  end

  # A full house answers probes all the same, on new connections too.
  def test_health_without_a_free_fiber
    running = serve(**ServerCase.at_once(1), readiness: "/readyz", shutdown_timeout: 0.1) { sleep }
    connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    connect(running).write(GET)
    assert eventually { here(running) == 2 }
    2.times { assert_equal 200, ask(running, request("GET", "/readyz")).status }
  end

  # It ran out of time somewhere between its waits.
  def test_whoever_was_about_to_run_is_interrupted_later
    reasons = Queue.new
    running = serve(shutdown_timeout: 0.2) do
      loop { sleep 0.0001 }
    rescue Exception => e # rubocop:disable Lint/RescueException
      reasons << e.class
      raise
    end
    clients = Array.new(30) { connect(running).write(GET) }
    assert eventually { running.server.stats[:in_app] == 30 }
    running.server.stop
    assert_equal [503] * 30, clients.map { |client| client.read.status }
    running.stop
    assert_equal([Abaca::Shutdown] * 30, Array.new(30) { reasons.pop })
    assert_equal 30, mode_stats(running)[:cancelled]
  end

  # It swallows the exception and goes on: its client gets an answer all the same, and the log a line.
  def test_a_request_that_does_not_end_is_given_up
    running = serve(shutdown_timeout: 0.1, lint: false) do
      begin
        sleep
      rescue Abaca::Shutdown
        sleep
      end
      HELLO.call(nil)
    end
    client = connect(running).write(request("GET", "/stubborn"))
    assert eventually { running.server.stats[:in_app] == 1 }
    running.server.stop
    assert_equal 503, client.read.status
    assert client.closed?
    running.stop
    assert_match(%r{a request is given up that did not end in \d\.\d s \(GET /stubborn\)}, running.log)
    assert_equal 1, mode_stats(running)[:abandoned]
  end

  def test_the_exception_cannot_be_rescued_by_accident
    running = serve(shutdown_timeout: 0.1) do
      sleep
    rescue StandardError
      sleep
    end
    client = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    running.server.stop
    assert_equal 503, client.read.status
    running.stop
    # The second wait would have been given up.
    assert_equal [1, 0], mode_stats(running).values_at(:cancelled, :abandoned)
  end

  def test_an_ensure_is_not_interrupted_a_second_time
    done = Queue.new
    running = serve(shutdown_timeout: 0.1) do
      sleep
    ensure
      sleep 0.5
      done << true
    end
    client = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    running.server.stop
    assert_equal 503, client.read.status
    running.stop
    assert_equal 1, done.size
  end

  # Lint's own stream knows only what every server has.
  def test_a_stream_is_told
    running = serve(lint: false) do
      body = lambda do |stream|
        last = Queue.new
        stream.on_shutdown { last << stream.closing? }
        stream.write("open,#{stream.closing?},")
        stream.write("told #{last.pop}")
        stream.close
      end
      [200, TYPE.dup, body]
    end
    client = connect(running).write(GET)
    text = +""
    assert(eventually { (text << client.read_some).include?("open,false,") })
    running.server.stop
    assert_match(/told true/, client.drain)
    running.stop
  end

  # In whatever the app does: blocks are called in order, on a fiber that may wait, and errors are logged.
  def test_on_shutdown
    order = Queue.new
    asked = Queue.new
    running = serve do |env|
      client = env["abaca.client"]
      client.on_shutdown do
        sleep 0.01
        order << :first
        raise "a mistake of the block's"
      end
      client.on_shutdown { order << :second }
      asked << true
      sleep 0.01 until client.closing? && order.size == 2
      client.on_shutdown { order << :at_once }
      HELLO.call(env)
    end
    waiting = connect(running).write(GET)
    asked.pop
    running.server.stop
    assert_equal "hello\n", waiting.read.body
    running.stop
    assert_equal(%i[first second at_once], Array.new(order.size) { order.pop })
    assert_match(/a mistake of the block's/, running.log)
  end

  def test_on_shutdown_is_not_called_for_a_request_that_is_over
    calls = Queue.new
    clients = Queue.new
    running = serve do |env|
      env["abaca.client"].on_shutdown { calls << true }
      clients << env["abaca.client"]
      HELLO.call(env)
    end
    ask(running)
    running.stop
    assert_empty calls
    handle = clients.pop
    assert_predicate handle, :closing?
    assert_raises(IOError) { handle.on_shutdown { nil } }
    assert_raises(ArgumentError, LocalJumpError) { handle.on_shutdown }
  end

  # An `each` body may ask between two pieces.
  def test_a_body_that_asks
    pieces = 0
    running = serve do |env|
      client = env["abaca.client"]
      body = Enumerator.new do |out|
        until client.closing?
          out << "x"
          pieces += 1
          sleep 0.01
        end
        out << "end"
      end
      [200, TYPE.dup, body]
    end
    client = connect(running).write(GET)
    assert(eventually { pieces > 2 })
    running.server.stop
    assert_match(/\Ax+end\z/, client.read.body)
    running.stop
  end

  # Who holds the socket as well keeps what stands in its queue for a successor.
  def test_a_successor_on_the_same_socket
    socket = TCPServer.new("127.0.0.1", 0)
    port = socket.addr[1]
    first = serve_on(socket)
    assert_equal ["http://127.0.0.1:#{port}"], first.server.urls
    assert_equal 200, ask(first).status
    first.stop
    waiting = Array.new(5) { connect(first).write(GET) }
    second = serve_on(socket)
    waiting.each { |client| assert_equal 200, client.read.status }
    socket.close
    second.stop
    assert_raises(Errno::ECONNREFUSED) { connect(second) }
  end

  def test_a_successor_on_the_same_unix_socket
    Dir.mktmpdir do |dir|
      path = File.join(dir, "s")
      socket = UNIXServer.new(path)
      first = serve_on(socket)
      assert_equal ["unix://#{path}"], first.server.urls
      first.stop
      assert_path_exists path
      socket.close
    end
  end

  def test_what_is_no_listener
    server = Abaca::Server.new(HELLO, log: Abaca::Log.new(StringIO.new))
    File.open(File::NULL) { |file| assert_raises(SystemCallError) { server.add_listener_fd(file.fileno) } }
    UNIXSocket.pair.each do |socket|
      assert_raises(SystemCallError) { server.add_listener_fd(socket.fileno) }
      socket.close
    end
    assert_raises(Errno::EBADF) { server.add_listener_fd(9_999) }
    assert_empty server.urls
  end

  private

  # A server on a copy of the socket.
  def serve_on(socket)
    copy = socket.dup
    copy.autoclose = false
    server = Abaca::Server.new(HELLO, { log: Abaca::Log.new(StringIO.new) }.merge(MODE))
    server.add_listener_fd(copy.fileno)
    port = socket.is_a?(TCPServer) ? socket.addr[1] : nil
    Running.new(server, port, Thread.new { server.run }, StringIO.new).tap { |running| @running << running }
  end

  # Requests in the app or waiting for it: those of a route of threads wait behind the engine.
  def here(running) = running.server.stats.values_at(:in_app, :waiting).sum

  def mode_stats(running) = running.server.stats[:modes][ServerCase.first_mode]

  def health(probe)
    %w[/readyz /livez].map { |path| probe.call(request("GET", path)).status }
  end

  def status_of(client)
    client.read.status
  rescue EOFError, SystemCallError
    :gone
  end
end
