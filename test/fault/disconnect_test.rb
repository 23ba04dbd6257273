# frozen_string_literal: true

# also: modes tls sanitized portable

require "test_helper"
require "support/server_case"

# Clients that go away, at each phase of a request and in each way. The server must forget them, tell
# the app, close the response's body once, and go on serving.
class FaultDisconnectTest < Minitest::Test
  include ServerCase

  BROKEN = [Errno::ECONNRESET, Errno::EPIPE, EOFError].freeze

  PHASES = {
    "before any byte" => "",
    "in the request line" => "GET / HT",
    "in the head" => "GET / HTTP/1.1\r\nHost: a.te",
    "before the body" => "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n",
    "in the body" => "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello",
    "in a chunk size" => "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1",
    "in a chunk" => "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
    "in the trailers" => "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y",
    "while it expects 100" => "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    "after a request" => GET,
    "after pipelined requests" => GET * 5,
    "after an error" => "BAD\r\n\r\n",
    "in the second request" => "#{GET}GET /sec"
  }.freeze

  PHASES.each do |phase, bytes|
    %i[close reset half_close].each do |way|
      define_method("test_#{way}_#{phase.tr(' ', '_')}") do
        running = serve { |env| [200, TYPE.dup, [env["rack.input"]&.read.to_s]] }
        3.times do
          client = connect(running).write(bytes)
          caught_up(running)
          client.public_send(way)
        end
        assert_equal 200, ask(running).status
        assert_connections(running, 1)
        assert_quiet(running)
      end
    end
  end

  def test_half_close_still_gets_the_response
    running = serve do
      sleep 0.05
      [200, TYPE.dup, ["late"]]
    end
    client = connect(running).write(GET)
    client.half_close
    assert_equal "late", client.read.body
    assert client.closed?
  end

  def test_half_close_after_pipelined_requests_gets_all_responses
    client = connect(serve).write(GET * 10)
    client.half_close
    assert_equal 10, Array.new(10) { client.read.body }.count("hello\n")
    assert client.closed?
  end

  # What the socket did not take at once must not be lost because the client said goodbye.
  def test_half_close_still_gets_a_large_response
    running = serve { [200, TYPE.dup, ["x" * 8_000_000]] }
    client = connect(running, receive_buffer: 16_384).write(GET)
    client.half_close
    caught_up(running)
    assert_equal 8_000_000, client.read.body.bytesize
    assert client.closed?
  end

  def test_half_close_after_the_app_is_done_still_gets_the_end_of_the_response
    running = serve(max_pending_output: 100_000_000) { [200, TYPE.dup, ["x" * 8_000_000]] }
    client = connect(running, receive_buffer: 16_384).write(GET)
    assert eventually { running.server.stats.values_at(:requests, :in_app) == [1, 0] }
    client.half_close
    caught_up(running)
    assert_equal 8_000_000, client.read.body.bytesize
    assert client.closed?
  end

  def test_half_close_in_the_second_request_still_gets_the_first_response
    client = connect(serve).write("#{GET}GET /second HT")
    client.half_close
    assert_equal "hello\n", client.read.body
    assert client.closed?
  end

  def test_half_close_in_a_second_body_still_gets_the_first_response
    running = serve do |env|
      env["rack.input"].read
      [200, TYPE.dup, ["hello\n"]]
    end
    client = connect(running).write(GET + request("POST", "/", "Content-Length" => "10") + "hal")
    client.half_close
    assert_equal "hello\n", client.read.body
    assert client.closed?
  end

  # The app works on; its answer goes nowhere, and its body is still closed.
  def test_gone_while_the_app_runs
    %i[close reset].each do |way|
      closed = Queue.new
      gate = Queue.new
      running = serve do
        gate.pop
        [200, TYPE.dup, Rack::BodyProxy.new(["x"]) { closed << true }]
      end
      client = connect(running).write(GET)
      assert eventually { gate.num_waiting == 1 }
      client.public_send(way)
      caught_up(running)
      gate << true
      assert eventually { closed.size == 1 }, way.to_s
      assert_quiet(running)
      running.stop
    end
  end

  def test_gone_while_the_response_is_sent
    closed = Queue.new
    body = Enumerator.new do |out|
      1_000.times do
        out << ("x" * 50_000)
        sleep 0.001
      end
    end
    running = serve { [200, TYPE.dup, Rack::BodyProxy.new(body) { closed << true }] }
    %i[close reset].each do |way|
      client = connect(running).write(GET)
      client.read_some
      client.public_send(way)
    end
    assert eventually { closed.size == 2 }
    assert_connections(running, 0)
  end

  # A writer that waits for the client to read must be woken when the client goes.
  def test_gone_while_the_writer_waits_for_room
    closed = Queue.new
    body = Enumerator.new { |out| 500.times { out << ("x" * 100_000) } }
    running = serve { [200, TYPE.dup, Rack::BodyProxy.new(body) { closed << true }] }
    client = connect(running, receive_buffer: 4_096).write(GET)
    client.read_some
    assert eventually { in_phase(running, :drain) == 1 }
    assert_empty closed
    client.reset
    assert eventually { closed.size == 1 }
  end

  # What the app reads from a client that has gone is an error, never a short body.
  def test_reading_from_one_who_is_gone
    outcome = Queue.new
    running = serve(**STREAMED) do |env|
      outcome << env["rack.input"].read
      [200, TYPE.dup, []]
    rescue Abaca::PeerError, IOError => e
      outcome << e
      raise
    end
    client = connect(running).write(PHASES.fetch("while it expects 100"))
    client.read_interim
    client.write("he")
    client.reset
    assert_kind_of StandardError, outcome.pop
    assert_connections(running, 0)
  end

  def test_storm_of_connections
    running = serve
    threads = Array.new(4) do |nth|
      Thread.new do
        random = Random.new(nth)
        100.times do
          client = Wire::Client.new(running.port)
          client.write(PHASES.values.sample(random: random))
          random.rand(2).zero? ? client.reset : client.close
        rescue *BROKEN
          client&.close
        end
      end
    end
    threads.each { |thread| thread.join(20) || flunk("stuck") }
    assert_equal 200, ask(running).status
    assert_connections(running, 1)
  end

  private

  def assert_connections(running, most)
    assert eventually { running.server.stats.fetch(:connections) <= most }, running.server.stats.inspect
  end

  # A client's going is no error of anybody's.
  def assert_quiet(running)
    refute_match(/error|exception/i, running.log)
  end
end
