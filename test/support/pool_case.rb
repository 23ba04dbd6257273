# frozen_string_literal: true

require_relative "server_case"

# Tests of requests that want more connections than a pool has, for every gem with an adapter in
# lib/abaca/compat: a class says what its pool is, which has two connections.
#
#   with_connection { }   runs the block with one
#   waiting_in_pool       how many wait in the pool itself
module PoolCase
  include ServerCase

  REQUESTS = 20

  # The path /page holds a connection, and /late comes to that only later.
  def setup
    super
    @started = Thread::Queue.new
    @late = Thread::Queue.new
    @ends = Thread::Queue.new
  end

  def app
    lambda do |env|
      path = env["PATH_INFO"]
      @started << path
      @late.pop if path == "/late"
      path == "/free" ? respond("free") : with_connection { respond(@ends.pop) }
    end
  end

  # Pools that do not tell how many wait in them: what our gate has let in.
  def inside(pool) = pool.instance_variable_get(:@abaca_gate).instance_variable_get(:@inside)

  def respond(text) = [200, { "content-type" => "text/plain" }, [text]]

  def ask(running, path) = connect(running).write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")

  def ask_all(running, path) = Array.new(REQUESTS) { ask(running, path) }

  def finish(clients)
    REQUESTS.times { @ends << "done" }
    assert_equal ["done"], clients.map { |client| client.read.body }.uniq
  end

  # Two have connections, two wait for them, and the server has the rest.
  def test_what_could_only_wait_is_not_started
    running = serve(app)
    clients = ask_all(running, "/page")
    assert eventually { @started.size + running.server.stats[:held] == REQUESTS }
    assert eventually { @started.size == 4 } unless ServerCase.threads?
    assert_equal "free", ask(running, "/free").read.body
    assert_equal REQUESTS, @started.size - 1 + running.server.stats[:held]
    finish(clients)
    assert_equal 0, running.server.stats[:held]
  end

  # They were started before anybody knew, and wait in line.
  def test_what_has_started_does_not_wait_in_the_pool
    running = serve(app)
    clients = ask_all(running, "/late")
    assert eventually { @started.size == REQUESTS }
    REQUESTS.times { @late << true }
    assert eventually { @late.empty? && waiting_in_pool == 2 }
    assert_equal "free", ask(running, "/free").read.body
    assert_equal 2, waiting_in_pool
    finish(clients)
  end

  def test_the_queue_has_its_limit
    running = serve(app, max_queue: 3)
    clients = ask_all(running, "/late")
    assert eventually { @started.size == REQUESTS }
    REQUESTS.times { @late << true }
    assert eventually { waiting_in_pool == 2 }
    others = Array.new(5) { ask(running, "/late") }
    assert eventually { running.server.stats[:rejected][:queue_full] == 2 }
    assert_equal 3, running.server.stats[:held]
    3.times do
      @late << true
      @ends << "done"
    end
    finish(clients)
    assert_equal [200, 200, 200, 503, 503], others.map { |client| client.read.status }.sort
  end
end
