# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
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
