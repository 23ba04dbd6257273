# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# A crowd: as many as there are places run, as many as may wait do, and each of the others is told at once.
class OverloadExcessTest < Minitest::Test
  include ServerCase

  PLACES = 100
  # Both ends of each connection are this process's.
  CROWD = Process.getrlimit(:NOFILE).first > 2500 ? 1000 : 400
  # Whatever the tests' own mode is.
  WAYS = { "fiber" => { mode: :fiber, max_fibers: PLACES, routes: [] },
           "thread" => { mode: :thread, threads: [0, PLACES], routes: [] },
           "route" => { mode: :fiber, threads: [0, PLACES], routes: [[:thread, "*"]] } }
         .transform_values { |options| { **options, fiber_scheduler: "Abaca::Scheduler" } }.freeze
  REFUSED = CROWD - (2 * PLACES)

  # The statuses of the first `count` responses; their clients are taken out of `by_socket`.
  def first_statuses(by_socket, count)
    statuses = []
    until statuses.size >= count
      ready, = IO.select(by_socket.keys, nil, nil, 20)
      refute_nil ready, "#{count - statuses.size} get no answer"
      ready.each do |socket|
        response = by_socket.delete(socket).read
        assert_equal ["1"], response.all("retry-after") if response.status == 503
        statuses << response.status
      end
    end
    statuses
  end

  # Those that are too many are told while nobody else gets an answer; then the others do.
  def assert_exact(clients, gate, name)
    by_socket = clients.to_h { |client| [client.socket, client] }
    assert_equal({ 503 => REFUSED }, first_statuses(by_socket, REFUSED).tally, name)
    gate.close
    assert_equal({ 200 => 2 * PLACES }, first_statuses(by_socket, 2 * PLACES).tally, name)
  end

  # Yields a server whose app waits until the gate is closed.
  def each_way(**options)
    WAYS.each do |name, way|
      gate = Queue.new
      app = ->(_env) { [200, { "content-type" => "text/plain" }, ["done #{gate.pop}"]] }
      running = serve(app, lint: false, **way, max_queue: PLACES, queue_timeout: 0, **options)
      yield running, gate, name
      assert_equal REFUSED, running.server.stats[:rejected].values.sum, name
      @clients.each(&:close).clear
      running.stop
    end
  end

  def test_requests_on_open_connections
    each_way do |running, gate, name|
      clients = Array.new(CROWD) { connect(running) }
      clients.each { |client| client.write(GET) }
      assert_exact(clients, gate, name)
    end
  end

  def test_connections_and_requests_at_once
    each_way(defer_accept: true) do |running, gate, name|
      clients = Array.new(CROWD) { connect(running).write(GET) }
      assert_exact(clients, gate, name)
    end
  end
end
