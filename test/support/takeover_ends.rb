# frozen_string_literal: true

# How a server stops that has a connection of the app's, whatever the connection speaks. Who includes it has
# #taken_over: a server with options, one of whose connections the app has taken over, a client there, and the app's
# socket.
module TakeoverEnds
  # The end of the client's stream tells a reader, and the app has time to say goodbye.
  def test_a_stop_tells_the_reader_and_waits
    running, client, io = taken_over(force_shutdown_after: 60)
    reader = Thread.new { io.read }
    running.server.stop
    assert_equal "", reader.value
    assert running.thread.alive?
    assert_equal 1, running.server.stats[:taken_over]
    io.write("goodbye")
    io.close
    assert_equal "goodbye", client.drain
    running.stop
  end

  # The app owns the socket even then: the server closes no descriptor of the app's.
  def test_a_stop_waits_no_longer_than_for_a_request
    running, client, io = taken_over(force_shutdown_after: 0.2)
    running.stop
    assert_nil client.read_some
    assert_raises(Errno::EPIPE) { io.write("too late") }
    assert_match(/ 0 requests and 1 connections of the app's are broken off/, running.log)
  ensure
    io&.close
  end

  def test_a_halt_does_not_wait
    running, client, io = taken_over(force_shutdown_after: 600)
    running.halt
    assert_nil client.read_some
  ensure
    io&.close
  end
end
