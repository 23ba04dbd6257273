# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# `idle_timeout`: a server for which nobody comes stops by itself.
class FaultIdleTimeoutTest < Minitest::Test
  include ServerCase

  def end_of_run(running) = running.thread.join(15)

  def test_without_a_connection
    running = serve(idle_timeout: 0.2)
    assert end_of_run(running)
    assert refused?(running)
    assert running.logged?(/^- Idle for 0\.2 s \(idle_timeout\), gracefully stopping$/)
  end

  def test_it_counts_from_the_last_request_on
    running = serve(idle_timeout: 1)
    client = connect(running)
    began = now
    while now - began < 1.3
      assert_equal 200, client.call(GET).status
      sleep 0.05
    end
    asked = now
    assert end_of_run(running)
    assert_operator now - asked, :>=, 0.8
    assert client.closed?
  end

  def test_a_request_in_flight_keeps_it
    gate = Queue.new
    running = serve(idle_timeout: 0.7) do
      gate.pop
      [200, TYPE.dup, ["answered"]]
    end
    client = connect(running).write(GET)
    assert eventually { gate.num_waiting == 1 }
    refute running.thread.join(1)
    gate << true
    response = client.read
    assert_equal "answered", response.body
    refute response.close?, "it had begun to stop"
    assert end_of_run(running)
  end

  def test_a_body_that_is_on_its_way_keeps_it
    running = serve(idle_timeout: 0.7)
    client = connect(running).write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nab")
    assert eventually { running.server.stats[:gathering] == 1 }
    refute running.thread.join(1.2)
    response = client.write("cd").read
    assert_equal 200, response.status
    refute response.close?, "it had begun to stop"
    assert end_of_run(running)
  end

  # It is a connection that has come, and no request.
  def test_a_silent_connection_does_not_keep_it
    running = serve(idle_timeout: 0.7)
    client = connect(running)
    assert end_of_run(running)
    assert client.closed?
  end

  def test_none_is_the_default
    running = serve
    assert_equal 200, ask(running).status
    refute running.thread.join(0.3)
    assert_equal 0.0, Abaca::Config.new({ idle_timeout: nil })[:idle_timeout]
  end

  def test_without_sense
    [-1, "soon", Float::INFINITY].each do |value|
      assert_raises(Abaca::ConfigError, value.inspect) { Abaca::Config.new({ idle_timeout: value }) }
    end
  end
end
