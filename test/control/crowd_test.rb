# frozen_string_literal: true

require "test_helper"
require "metrics/metrics_case"

# More clients than the control server and `metrics_port` have room for: those that have no token, ask nothing or do
# not read keep nobody waiting.
class ControlCrowdTest < Minitest::Test
  include MetricsCase

  # Connections at once of the control server.
  ROOM = 16
  # So many that a server which keeps each of them for a second would take half a minute.
  REJECTED = 480
  # Seconds for all of them: only a server that keeps them takes longer.
  HANG = 20
  # Each path is a route, so that the metrics are longer than what the kernel takes for a client that does not read.
  APP = <<~RUBY
    run(lambda do |env|
      env["abaca.route"] = env["PATH_INFO"]
      [200, {}, ["done"]]
    end)
  RUBY

  def serve
    @control = free_port
    url = "tcp://127.0.0.1:#{@control}"
    @command = run_abaca(APP, config: config(0, "activate_control_app #{url.dump}, auth_token: \"secret\""))
    @command.wait_for(/Use Ctrl-C/)
    @held = []
  end

  def teardown
    @held&.each(&:close)
    super
  end

  def held(port, text = nil)
    @held << TCPSocket.new("127.0.0.1", port)
    @held.last.tap { |socket| socket.write(text) if text }
  end

  def stats = fetch("/stats", fields: { "Authorization" => "Bearer secret" }, socket: held(@control))

  # Clients that read their refusal to the end, and keep their connections.
  def reject(port, path)
    began = now
    (1..REJECTED).each do |number|
      socket = held(port, "GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
      assert_match(%r{\AHTTP/1\.1 40[34] }, socket.read)
      flunk "#{number} rejected clients took #{HANG} s" if now - began > HANG
      held(port) if (number % 4).zero? # and others that ask nothing
    end
  end

  def test_rejected_and_silent_clients_of_the_control_server
    serve
    (2 * ROOM).times { held(@control) }
    reject(@control, "/stats?token=wrong")
    assert_equal 200, stats.first
  end

  def test_rejected_and_silent_clients_of_the_metrics
    serve
    (2 * ROOM).times { held(@port) }
    reject(@port, "/nothing")
    assert_equal 200, fetch.first
  end

  # The kernel takes little for them: the server has to wait for each.
  def test_clients_that_do_not_read_the_metrics
    need_platform(:memfd) # in a file there is room for fewer series
    serve
    64.times { |i| request(@command, "/route/#{i}") }
    assert_operator fetch.last.bytesize, :>, 100_000
    (10 * ROOM).times { deaf }
    assert_equal 200, fetch.first
  end

  def deaf
    socket = Socket.new(:INET, :STREAM)
    @held << socket
    socket.setsockopt(:SOCKET, :RCVBUF, 1)
    socket.setsockopt(:TCP, :MAXSEG, 88)
    socket.connect(Addrinfo.tcp("127.0.0.1", @port))
    socket.write("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
  end
end
