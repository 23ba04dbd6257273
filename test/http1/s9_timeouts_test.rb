# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Deadlines: the server ends what does not go on, and takes no processor time while it waits.
class Http1S9TimeoutsTest < Minitest::Test
  include ServerCase

  READ = lambda do |env|
    [200, { "content-type" => "text/plain" }, [env["rack.input"]&.read.to_s.bytesize.to_s]]
  end

  # A deadline is absolute: bytes that dribble in do not put it off.
  def test_9_5_header_timeout
    running = serve(header_timeout: 2)
    silent = connect(running)
    silent.write("GET / HT")
    dribble = connect(running)
    dribble.write("GET / HTTP/1.1\r\nHost: a.test\r\nX: ") # of which a value may be long
    answered = eventually do
      dribble.write("X")
      dribble.socket.wait_readable(0.1)
    end
    assert answered, "dribbling put the deadline off"
    [silent, dribble].each do |client|
      response = client.read
      assert_equal 408, response.status
      assert response.close?
      assert client.closed?
    end
  end

  def test_9_5_header_timeout_answers_408
    client = connect(serve(header_timeout: 2))
    client.write("GET / HTTP/1.1\r\nHost: a.test\r\nX: ")
    assert_equal 408, client.read.status
    assert client.closed?
  end

  # Nothing was asked, so nothing is answered.
  def test_9_5_a_connection_that_sends_nothing_is_closed_silently
    running = serve(header_timeout: 1, persistent_timeout: 1)
    client = connect(running)
    assert client.closed?
    refute_match(/error/i, running.log)
  end

  def test_9_5_persistent_timeout
    running = serve(persistent_timeout: 1)
    client = connect(running)
    assert client.usable?
    assert client.closed?
  end

  def test_9_5_persistent_timeout_starts_again_with_each_request
    client = connect(serve(persistent_timeout: 3))
    5.times do
      assert client.usable?
      nothing_for(0.7)
    end
    assert client.usable?
  end

  def test_9_5_body_timeout
    client = connect(serve(READ, body_timeout: 1))
    client.write(request("POST", "/", "Content-Length" => "10") + "hello")
    assert_equal 408, client.read.status
    assert client.closed?
  end

  def test_9_5_body_timeout_of_chunks
    client = connect(serve(READ, body_timeout: 1))
    client.write("#{request('POST', '/', 'Transfer-Encoding' => 'chunked')}5\r\nhel")
    assert_equal 408, client.read.status
    assert client.closed?
  end

  def test_9_5_body_timeout_starts_again_with_progress
    client = connect(serve(READ, body_timeout: 3))
    client.write(request("POST", "/", "Content-Length" => "6"))
    6.times do
      nothing_for(0.6)
      client.write("x")
    end
    assert_equal "6", client.read.body
  end

  # The peer takes nothing of a response: the connection is ended, and the app's body closed.
  def test_9_5_write_timeout
    closed = Queue.new
    body = Class.new do
      define_method(:each) { |&block| 300.times { block.call("x" * 100_000) } }
      define_method(:close) { closed << true }
    end
    running = serve(write_timeout: 1) { [200, { "content-type" => "text/plain" }, body.new] }
    client = connect(running, receive_buffer: 4_096)
    client.write(GET)
    assert eventually { !closed.empty? }, "the body was never closed"
    received = begin
      client.drain.bytesize
    rescue Errno::ECONNRESET
      0
    end
    assert_operator received, :<, 30_000_000
  end

  # Slower than the rate, although it never stops for as long as write_timeout.
  def test_9_5_min_send_rate
    body = "x" * 8_000_000
    running = serve(min_send_rate: 2_000_000, rate_grace: 1) { [200, { "content-type" => "text/plain" }, [body]] }
    client = connect(running, receive_buffer: 65_536)
    client.write(GET)
    ended = eventually do
      sleep 0.05
      take(client, 20_000)
      running.server.stats.values_at(:timeouts, :connections) == [1, 0]
    end
    assert ended, "a reader below the rate was served on"
  end

  # Reads, though the server may have ended the connection.
  def take(client, bytes)
    client.read_some(bytes)
  rescue Errno::ECONNRESET
    nil
  end

  # An event stream with little to say is no slow reader.
  def test_9_5_min_send_rate_asks_nothing_of_a_quiet_stream
    body = Enumerator.new do |events|
      6.times do |nth|
        events << "data: #{nth}\n\n"
        sleep 0.5
      end
    end
    running = serve(min_send_rate: 1_000_000, rate_grace: 1) { [200, { "content-type" => "text/event-stream" }, body] }
    assert_equal 6, ask(running).body.scan("data:").size
  end

  def test_9_5_a_slow_reader_who_goes_on_is_not_cut_off
    running = serve(write_timeout: 2) { [200, { "content-type" => "text/plain" }, ["x" * 400_000] * 20] }
    client = connect(running, receive_buffer: 65_536)
    client.write(GET)
    bytes = 0
    while bytes < 8_000_000
      bytes += client.read_some(131_072).bytesize
      sleep 0.04
    end
    assert_operator bytes, :<, 8_001_000
  end

  # A slow app is not a slow client: no deadline of the connection runs while the app works.
  def test_9_5_deadlines_do_not_run_while_the_app_works
    running = serve(header_timeout: 2, body_timeout: 2, persistent_timeout: 2, write_timeout: 2) do
      sleep 2.6
      [200, { "content-type" => "text/plain" }, ["done"]]
    end
    assert_equal "done", ask(running, request("POST", body: "x")).body
  end
end
