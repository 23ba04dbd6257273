# frozen_string_literal: true

# also: modes tls portable

require "test_helper"
require "support/server_case"

# Clients that go away while their requests wait for a place: nothing is run for them.
class OverloadLeaversTest < Minitest::Test
  include ServerCase

  CROWD = 20

  def setup
    super
    @gate = Queue.new
    @begun = Queue.new
  end

  # A server with one place, in which a request is held until the gate opens.
  def held(**options)
    serve(**ServerCase.places(1), **options) do |env|
      @begun << env["PATH_INFO"]
      @gate.pop if env["PATH_INFO"] == "/hold"
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
  end

  def hold(running)
    connect(running).write(request("GET", "/hold")).tap { assert_equal "/hold", @begun.pop }
  end

  def crowd(running, count = CROWD, path = "/left")
    clients = Array.new(count) { connect(running).write(request("GET", path)) }
    assert(eventually { running.server.stats[:waiting] >= count })
    clients
  end

  # What has begun behind the held one.
  def others_begun(holding)
    @gate << true
    assert_equal "/hold", holding.read.body
    Array.new(@begun.size) { @begun.pop }
  end

  %i[close reset half_close].each do |way|
    define_method("test_who_has_left_by_#{way}_is_not_served") do
      need_ends if way == :half_close
      running = held
      holding = hold(running)
      crowd(running).each(&way)
      assert eventually { running.server.stats[:waiting].zero? }, running.server.stats.inspect
      assert_equal CROWD, running.server.stats[:left]
      assert_empty others_begun(holding)
      assert_equal "/after", ask(running, request("GET", "/after")).body
      assert_equal 2, running.server.stats[:requests]
    end
  end

  def test_who_stays_is_served
    running = held
    holding = hold(running)
    leaving = crowd(running, 5)
    staying = Array.new(5) { connect(running).write(request("GET", "/stayed")) }
    assert(eventually { running.server.stats[:waiting] == 10 })
    leaving.each(&:close)
    assert(eventually { running.server.stats[:left] == 5 })
    @gate << true
    assert_equal "/hold", holding.read.body
    assert_equal ["/stayed"] * 5, staying.map { |client| client.read.body }
    assert_equal ["/stayed"] * 5, Array.new(@begun.size) { @begun.pop }
  end

  # A request that comes with its half-close finds every place taken. (A close would do, but in TLS: a ticket that the
  # client has not read makes a reset of it, and a request that the server has not read is lost.)
  def test_who_has_left_before_the_request_was_read
    need_ends
    running = held
    holding = hold(running)
    leaving = Array.new(CROWD) { connect(running).write(request("GET", "/left")).tap(&:half_close) }
    assert eventually { running.server.stats[:left] == CROWD }, running.server.stats.inspect
    assert leaving.all?(&:closed?)
    assert_empty others_begun(holding)
  end

  # What came before it is answered all the same.
  def test_the_responses_before_it_are_sent
    need_ends
    running = held
    holding = hold(running)
    client = connect(running).write(request("GET", "/first") + request("GET", "/second"))
    assert(eventually { running.server.stats[:waiting] == 1 })
    other = connect(running).write(request("GET", "/hold"))
    assert(eventually { running.server.stats[:waiting] == 2 })
    @gate << true
    assert_equal "/hold", holding.read.body
    assert_equal "/first", client.read.body
    assert(eventually { running.server.stats.values_at(:in_app, :waiting) == [1, 1] })
    client.half_close
    assert(eventually { running.server.stats[:left] == 1 })
    assert client.closed?
    @gate << true
    assert_equal "/hold", other.read.body
  end

  def test_a_half_close_waits_for_its_answer_when_the_user_says_so
    running = held(half_close: :answer)
    holding = hold(running)
    clients = crowd(running, 3, "/stayed").each(&:half_close)
    @gate << true
    assert_equal "/hold", holding.read.body
    assert_equal ["/stayed"] * 3, clients.map { |client| client.read.body }
    assert_equal 0, running.server.stats[:left]
  end

  # There are places for them, but the app computes.
  %i[close half_close].each do |way|
    define_method("test_who_leaves_by_#{way}_while_the_app_computes") do
      skip "elsewhere others take the requests meanwhile" unless MODE.empty?
      running = computing
      computer = hold(running)
      clients = Array.new(CROWD) { connect(running).write(request("GET", "/left")) }
      sleep 0.15
      clients.each(&way)
      @gate << true
      assert_equal "/hold", computer.read.body
      assert_equal "/after", ask(running, request("GET", "/after")).body
      assert_equal ["/after"], Array.new(@begun.size) { @begun.pop }
      assert_equal CROWD, running.server.stats[:left]
    end
  end

  # In TLS a half-close comes behind a record, and what comes behind unread bytes POSIX does not tell.
  def need_ends = (need_poller("epoll") if TLS)

  # A server in which a request computes until the gate opens, and nothing else runs.
  def computing
    serve(spare_loops: 0) do |env|
      @begun << env["PATH_INFO"]
      nil while env["PATH_INFO"] == "/hold" && @gate.empty?
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
  end
end
