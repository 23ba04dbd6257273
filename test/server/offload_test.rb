# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"

# Abaca.offload in requests, whatever they run on.
class ServerOffloadTest < Minitest::Test
  include ServerCase

  def test_results_and_exceptions
    running = serve do |env|
      [200, TYPE.dup, [Abaca.offload { env["PATH_INFO"] == "/" ? "done" : raise(IOError, "on purpose") }]]
    end
    assert_equal "done", ask(running).body
    assert_equal 500, ask(running, request("GET", "/raise")).status
    assert running.logged?(/IOError.*on purpose/)
    assert_equal "done", ask(running).body
  end

  def test_others_go_on_while_it_computes
    stop = false
    running = serve do |env|
      Abaca.offload { nil until stop } if env["PATH_INFO"] == "/long"
      HELLO.call(env)
    end
    long = connect(running).write(request("GET", "/long"))
    5.times { assert_equal 200, ask(running).status }
    stop = true
    assert_equal 200, long.read.status
  ensure
    stop = true
  end

  def test_a_deadline_ends_the_block
    ended = Queue.new
    running = serve(request_timeout: 1) do
      Abaca.offload { sleep }
    rescue Abaca::DeadlineExceeded
      ended << :app
      raise
    end
    assert_equal 504, ask(running).status
    assert_equal :app, ended.pop
    assert eventually { Thread.list.none? { |thread| thread.name == "abaca offload" } }
  end

  # What it computes is not what its request keeps the loop for.
  def test_it_keeps_no_route_from_fibers
    limit = 0.75
    running = serve(mode: :hybrid, hybrid_threshold: 500, hybrid_requests: 1, routes: [],
                    fiber_scheduler: "Abaca::Scheduler") do |env|
      Abaca.offload { (stop = now + limit) && (nil while now < stop) }
      [200, TYPE.dup, [env["abaca.mode"].to_s]]
    end
    assert_equal %w[fiber fiber], Array.new(2) { ask(running).body }
  end
end
