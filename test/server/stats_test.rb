# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Server#stats.
class StatsTest < Minitest::Test
  include ServerCase

  BURN = lambda do |env|
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(env["QUERY_STRING"])
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
    [200, { "content-type" => "text/plain" }, ["done"]]
  end

  def test_before_and_after_the_run
    server = Abaca::Server.new(HELLO, log: Abaca::Log.new(StringIO.new))
    assert_equal 0, server.stats.fetch(:requests)
    assert_nil server.stats.fetch(:fiber_pool)
    assert_raises(TypeError) { server.dup }
    running = serve
    ask(running)
    running.stop
    assert_equal 1, running.server.stats.fetch(:requests)
    assert_operator running.server.stats.dig(:loop_lag, :count), :>, 0 unless ServerCase.threads?
  end

  def test_requests_in_flight_by_mode
    gate = Queue.new
    running = serve do
      gate.pop
      HELLO.call(nil)
    end
    clients = Array.new(3) { connect(running).write(GET) }
    assert eventually { in_flight(running) == (ServerCase.first_mode == :thread ? [0, 3] : [3, 0]) }
    3.times { gate << true }
    clients.each(&:read)
    assert eventually { in_flight(running) == [0, 0] }
  end

  # One that waits for a thread has left the engine, but may come to nothing all the same.
  def test_requests_are_those_that_the_app_has_seen
    gate = Queue.new
    running = serve(mode: :fiber, routes: [[:thread, "*"]], threads: [0, 1], max_queue: 1) do
      gate.pop
      HELLO.call(nil)
    end
    first = connect(running).write(GET)
    assert(eventually { requests(running) == [1, 1, 0] })
    second = connect(running).write(GET)
    assert(eventually { requests(running) == [1, 1, 1] })
    assert_equal 503, ask(running).status
    assert_equal [1, 1, 1], requests(running)
    second.reset
    assert(eventually { requests(running) == [1, 1, 0] }, requests(running).inspect)
    gate << true
    assert_equal 200, first.read.status
    assert(eventually { requests(running) == [1, 0, 0] })
  end

  def test_a_cancelled_request_is_counted_once
    running = serve(request_timeouts: { "/slow" => 1 }) { |env| env["PATH_INFO"] == "/slow" ? sleep : HELLO.call(env) }
    ask(running)
    assert_equal 0, cancelled(running)
    assert_equal 504, ask(running, request("GET", "/slow")).status
    assert(eventually { in_flight(running) == [0, 0] })
    assert_equal 1, cancelled(running)
  end

  def test_the_lag_of_a_busy_loop_is_seen
    skip "there is no loop of ours to watch" unless ServerCase::MODE.empty?
    running = serve(BURN)
    ask(running, request("GET", "/?0.3"))
    lag = nil
    assert(eventually { (lag = running.server.stats.fetch(:loop_lag))[:longest] > 0.29 }, lag.inspect)
    assert_equal lag[:count], lag[:buckets].values.sum
    assert_operator(lag[:buckets].sum { |bound, count| bound > 0.3 ? count : 0 }, :>=, 1)
    assert_equal Float::INFINITY, lag[:buckets].keys.last
  end

  # A server that waits is not late, however long it waits.
  def test_waiting_is_no_lag
    running = serve
    ask(running)
    nothing_for(2.5)
    ask(running)
    assert_operator running.server.stats.dig(:loop_lag, :longest), :<, 2
  end

  # Many fibers that wait have the pool make sure of free slots.
  def test_the_fiber_pool_and_the_collector
    gate = Queue.new
    running = serve do
      gate.pop
      HELLO.call(nil)
    end
    before = running.server.stats.fetch(:gc)
    GC.start
    assert_operator running.server.stats.dig(:gc, :count), :>, before.fetch(:count)
    clients = Array.new(300) { connect(running).write(GET) }
    assert(eventually { gate.num_waiting == 300 && running.server.stats.dig(:gc, :paced_slots).positive? })
    stats = running.server.stats
    assert_equal [300, 0], in_flight(running)
    # A spare loop has some of them, if this machine has stood still meanwhile.
    assert_includes 1..300, stats.dig(:fiber_pool, :busy)
    assert_equal stats.dig(:fiber_pool, :paced_slots), stats.dig(:gc, :paced_slots)
    300.times { gate << true }
    clients.each { |client| assert_equal 200, client.read.status }
  end

  # Those that a spare loop took over have fibers of their own.
  def test_requests_of_a_spare_loop
    skip "there is no loop of ours to take over from" unless ServerCase::MODE.empty?
    gate = Queue.new
    burns = true
    running = serve do |env|
      env["PATH_INFO"] == "/burn" ? (nil while burns) : gate.pop
      HELLO.call(env)
    end
    burning = connect(running).write(request("GET", "/burn"))
    assert(eventually { in_flight(running) == [1, 0] })
    clients = Array.new(2) { connect(running).write(GET) }
    assert(eventually { in_flight(running) == [3, 0] })
    burns = false
    burning.read
    assert(eventually { in_flight(running) == [2, 0] })
    assert_equal 0, running.server.stats.dig(:fiber_pool, :busy)
    2.times { gate << true }
    clients.each { |client| assert_equal 200, client.read.status }
  end

  private

  def requests(running) = running.server.stats.values_at(:requests, :in_app, :waiting)

  def cancelled(running)
    running.server.stats.fetch(:modes).values_at(:fiber, :thread).sum { |mode| mode.fetch(:cancelled) }
  end

  def in_flight(running)
    running.server.stats.fetch(:modes).values_at(:fiber, :thread).map { |mode| mode.fetch(:in_flight) }
  end
end
