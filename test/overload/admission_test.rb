# frozen_string_literal: true

# also: modes portable

require "test_helper"
require "support/server_case"

# More requests than the app takes: who waits, who is told at once, and what the figures say.
class OverloadAdmissionTest < Minitest::Test
  include ServerCase

  def setup
    super
    @gate = Queue.new
  end

  def waiting_app
    lambda do |env|
      @gate.pop
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
  end

  # So many clients, each with a connection that has served a request already.
  def known_clients(running, count)
    clients = Array.new(count) do
      @gate << true
      connect(running).tap { |client| assert_equal 200, client.call(GET).status }
    end
    assert at_rest?(running)
    clients
  end

  # Waits until the places of all requests that were answered are free again.
  def at_rest?(running)
    eventually do
      stats = running.server.stats
      stats[:in_app].zero? && stats[:waiting].zero? && stats.dig(:thread_pool, :busy).to_i.zero?
    end
  end

  def statuses(clients) = clients.map { |client| client.read.status }

  # Waits until these many requests are in the app, wait, and were refused. A refusal is sent at the end of the step in
  # which the request came.
  def settled?(running, in_app, waiting, refused)
    eventually do
      stats = running.server.stats
      [*stats.values_at(:in_app, :waiting), stats[:rejected].values.sum] == [in_app, waiting, refused]
    end
  end

  # Those of the clients that have been answered, as soon as there are this many.
  def answered(clients, count)
    found = []
    eventually { (found = clients.reject { |client| client.silent?(0) }).size >= count }
    assert_equal count, found.size
    found
  end

  def test_exactly_the_excess_is_refused
    running = serve(waiting_app, **places(10), max_queue: 15)
    clients = known_clients(running, 40)
    clients.each { |client| client.write(request("GET", "/second")) }
    assert settled?(running, 10, 15, 15), running.server.stats.inspect
    assert_equal 15, rejected(running)[:queue_full]
    refused = answered(clients, 15)
    refused.each { |client| assert_refusal client }
    40.times { @gate << true }
    assert_equal [200] * 25, statuses(clients - refused)
  end

  # New connections wait for a moment in the kernel's queue, and are told as well.
  def test_the_excess_of_a_burst_is_refused
    running = serve(waiting_app, **places(10), max_queue: 10, defer_accept: true)
    clients = Array.new(100) { connect(running).write(GET) }
    assert settled?(running, 10, 10, 80), running.server.stats.inspect
    assert_equal 80, rejected(running)[:queue_full]
    refused = answered(clients, 80)
    refused.each { |client| assert_refusal client }
    20.times { @gate << true }
    assert_equal [200] * 20, statuses(clients - refused)
    assert eventually { running.server.stats[:connections] == 20 }
  end

  def test_without_a_queue
    running = serve(waiting_app, **places(2), max_queue: 0)
    clients = known_clients(running, 2)
    clients.each { |client| client.write(GET) }
    assert eventually { running.server.stats[:in_app] == 2 }
    assert_refusal connect(running).write(GET)
    2.times { @gate << true }
    assert_equal [200, 200], statuses(clients)
    assert at_rest?(running)
    @gate << true
    assert_equal 200, ask(running).status
  end

  # The figures tell those who waited from those who did not.
  def test_requests_that_wait_are_counted
    running = serve(waiting_app, **places(1))
    first, second = Array.new(2) { connect(running).write(GET) }
    assert settled?(running, 1, 1, 0)
    # A thread that has to be made is not there at once.
    queued = running.server.stats[:queued]
    assert_includes(ServerCase.first_mode == :thread ? 1..2 : 1..1, queued)
    2.times { @gate << true }
    assert_equal [200, 200], statuses([first, second])
    stats = running.server.stats
    assert_equal [0, queued], stats.values_at(:waiting, :queued)
    assert_equal queued, stats.dig(:modes, ServerCase.first_mode, :queued)
    assert_equal 0, rejected(running).values.sum
  end

  def test_who_waits_for_queue_timeout_is_refused
    running = serve(waiting_app, **places(1), queue_timeout: 1)
    first = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    assert_refusal connect(running).write(GET)
    assert_equal 1, rejected(running)[:queue_timeout]
    @gate << true
    assert_equal 200, first.read.status # it was taken before
  end

  # One place, and a client that has sent thirty requests at once: the others' come between.
  def test_a_flood_does_not_keep_the_others_waiting
    order = Queue.new
    running = serve(**places(1)) do |env|
      @gate.pop if env["PATH_INFO"] == "/hold"
      order << env["PATH_INFO"]
      [200, TYPE.dup, ["x"]]
    end
    holding = connect(running).write(request("GET", "/hold"))
    assert eventually { running.server.stats[:in_app] == 1 }
    flood = connect(running).write(request("GET", "/flood") * 30)
    assert eventually { running.server.stats[:waiting] == 1 }
    others = Array.new(5) { connect(running).write(request("GET", "/other")) }
    assert eventually { running.server.stats[:waiting] == 6 }
    @gate << true
    statuses([holding, *others])
    30.times { flood.read }
    taken = Array.new(36) { order.pop }
    assert_equal ["/hold", "/flood", *["/other"] * 5], taken.first(7)
    assert_equal ["/flood"] * 29, taken.drop(7)
  end

  def test_a_path_may_have_a_time_of_its_own
    running = serve(waiting_app, request_timeout: 1, request_timeouts: { "/slow/*" => 0, "*.csv" => 60 })
    clients = %w[/slow /slow/a /x.csv /%73low].map { |path| connect(running).write(request("GET", path)) }
    assert eventually { running.server.stats[:in_app] == 4 }
    assert_equal 504, ask(running, request("GET", "/other")).status
    # They began before it.
    4.times { @gate << true }
    assert_equal [200] * 4, statuses(clients)
  end

  private

  def places(number) = ServerCase.places(number)

  def rejected(running) = running.server.stats[:rejected]

  def assert_refusal(client)
    response = client.read
    assert_equal [503, "503 Service Unavailable\n", true], [response.status, response.body, response.close?]
    assert_equal ["1"], response.all("retry-after")
    assert client.closed?
  end
end
