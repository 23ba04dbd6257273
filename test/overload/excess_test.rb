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
  WAIT = lambda do |_env|
    sleep 1
    [200, { "content-type" => "text/plain" }, ["done"]]
  end

  # The statuses in the order in which they came.
  def order_of(clients)
    by_socket = clients.to_h { |client| [client.socket, client] }
    order = []
    until by_socket.empty?
      ready, = IO.select(by_socket.keys, nil, nil, 10)
      refute_nil ready, "#{by_socket.size} get no answer"
      ready.each do |socket|
        response = by_socket.delete(socket).read
        assert_equal ["1"], response.all("retry-after") if response.status == 503
        order << response.status
      end
    end
    order
  end

  # All 503 come before the first 200, which takes a second.
  def assert_exact(order, name)
    refused = CROWD - (2 * PLACES)
    assert_equal({ 503 => refused, 200 => 2 * PLACES }, order.tally, name)
    assert_equal [503] * refused, order.first(refused), name
  end

  def each_way(**options)
    WAYS.each do |name, way|
      running = serve(WAIT, lint: false, **way, max_queue: PLACES, **options)
      yield running, name
      assert_equal CROWD - (2 * PLACES), running.server.stats[:rejected].values.sum, name
      @clients.each(&:close).clear
      running.stop
    end
  end

  def test_requests_on_open_connections
    each_way do |running, name|
      clients = Array.new(CROWD) { connect(running) }
      clients.each { |client| client.write(GET) }
      assert_exact(order_of(clients), name)
    end
  end

  def test_connections_and_requests_at_once
    each_way(defer_accept: true) do |running, name|
      clients = Array.new(CROWD) { connect(running).write(GET) }
      assert_exact(order_of(clients), name)
    end
  end
end
