# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# Thread#raise and Thread#kill by somebody who does not know that the thread is a server's.
class FaultStrayTest < Minitest::Test
  include ServerCase

  DROPPED = /warning: an exception from another thread .* is dropped: KeyError: a stray/

  def async? = ENV["ABACA_TEST_MODE"].to_s.include?("Async")

  def dropped(running) = running.log.scan(DROPPED).size

  def test_one_that_finds_the_server_idle_is_logged_and_dropped
    running = serve
    assert_equal 200, ask(running).status
    3.times do |i|
      running.thread.raise(KeyError, "a stray")
      assert eventually { dropped(running) == i + 1 }, running.log
    end
    assert_equal 200, ask(running).status
  end

  def test_requests_that_wait_do_not_feel_it
    gate = Queue.new
    begun = Queue.new
    running = serve do
      begun << true
      gate.pop
      [200, TYPE.dup, ["x"]]
    end
    clients = Array.new(3) { connect(running).write(GET) }
    3.times { begun.pop }
    running.thread.raise(KeyError, "a stray")
    assert eventually { dropped(running) == 1 }, running.log
    3.times { gate << true }
    assert_equal [200, 200, 200], clients.map { |client| client.read.status }
  end

  # The engine has given the request away already.
  def test_a_request_that_gets_no_fiber_because_of_one
    skip "no fiber is made for a request" if ServerCase.first_mode == :thread || ServerCase::MODE.key?(:fiber_scheduler)

    gate = Queue.new
    running = serve { [200, TYPE.dup, [gate.pop]] }
    waits = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    fail_once
    response = ask(running)
    assert_equal [503, true], [response.status, response.close?]
    assert eventually { dropped(running) == 1 }, running.log
    2.times { gate << "x" }
    assert_equal [200, 200], [waits.read.status, ask(running).status]
    assert eventually { running.server.stats[:in_app].zero? }
  end

  # The next fiber of whichever pool is not made.
  def fail_once
    raised = false
    ObjectSpace.each_object(Abaca::FiberPool) do |pool|
      pool.define_singleton_method(:make_fiber) do
        next super() if raised

        raised = true
        raise KeyError, "a stray"
      end
    end
  end

  # One computes, another one waits.
  def test_the_request_that_runs_fails_and_no_other
    gate = Queue.new
    threads = Queue.new
    running = serve do |env|
      next [200, TYPE.dup, [gate.pop]] if env["PATH_INFO"] == "/waits"

      threads << Thread.current
      loop { Thread.pass }
    end
    waits = connect(running).write(request("GET", "/waits"))
    assert eventually { running.server.stats[:in_app] == 1 }
    computes = connect(running).write(request("GET", "/computes"))
    threads.pop.raise(KeyError, "a stray")
    assert_equal 500, computes.read.status
    gate << "in order"
    assert_equal "in order", waits.read.body
    assert_match(/error in the app: KeyError: a stray/, running.log)
  end

  def test_a_hail_of_them
    running = serve
    ask(running) # its thread has come to the server
    clients = Array.new(4) { connect(running) }
    statuses = Array.new(4) { [] }
    askers = clients.each_with_index.map do |client, i|
      Thread.new { 50.times { statuses[i] << (client = again(running, client)).call(GET).status } }
    end
    200.times do
      running.thread.raise(KeyError, "a stray")
      sleep 0.002 # a thousand in a second would be taken for an error of the server's own
    end
    askers.each(&:join)
    assert_empty statuses.flatten - [200, 500]
    assert_equal [50] * 4, statuses.map(&:size)
    assert eventually { connect(running).call(GET).status == 200 }
    assert_operator dropped(running), :>, 0
  end

  # An error may have closed the connection.
  def again(running, client) = client.silent?(0) ? client : connect(running)

  def test_a_kill_ends_the_server
    # The kill takes the root fiber alone before Ruby 3.4, and Async waits for the engine's for ever.
    skip "Async cannot end a killed thread on Ruby #{RUBY_VERSION}" if async? && RUBY_VERSION < "3.4"

    begun = Queue.new
    running = serve do
      begun << true
      sleep
    end
    client = connect(running).write(GET)
    begun.pop
    running.thread.kill
    assert running.thread.join(20)
    assert refused?(running)
    refute_includes client.drain, "200 OK"
  end
end
