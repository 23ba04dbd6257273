# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# env["abaca.queue_time"]: how long a request has waited for the app, here and before.
class OverloadQueueTimeTest < Minitest::Test
  include ServerCase

  ANSWER = ->(env) { [200, { "content-type" => "text/plain" }, [env.fetch("abaca.queue_time").to_s]] }

  def told(running, **fields) = Float(ask(running, request("GET", "/", **fields)).body)

  def test_who_is_taken_at_once_has_not_waited
    app = lambda do |env|
      assert_kind_of Float, env["abaca.queue_time"]
      ANSWER.call(env)
    end
    running = serve(app)
    assert_includes 0.0..0.2, Array.new(5) { told(running) }.min
  end

  # The whole of it: with one place, each waits for those before it.
  def test_who_waits_is_told_how_long
    skip "a request for a thread is taken before there is one" if MODE.key?(:routes)

    all_are_here = Queue.new
    begun = []
    ended = []
    running = serve(**ServerCase.places(1)) do |env|
      begun << [now, env.fetch("abaca.queue_time")]
      all_are_here.pop
      sleep 0.2
      ended << now
      HELLO.call(env)
    end
    start = now
    clients = Array.new(4) { connect(running).write(GET) }
    assert eventually { running.server.stats[:received] == 4 * GET.bytesize }
    here = now
    all_are_here.close
    clients.each(&:read)
    # No longer than from its coming to its beginning, and as long as the one before it went on when all were here.
    begun.each { |time, waited| assert_includes 0.0..(time - start + CLOCK), waited }
    begun.drop(1).zip(ended) { |(_, waited), before| assert_operator waited, :>, before - here - CLOCK }
    assert_operator ended[2] - here, :>, 0.59
  end

  CLOCK = 0.02 # seconds by which what a loop takes for the time may be off

  # Also of the requests that are read together, while the first of them computes.
  def test_who_waits_behind_a_computation
    skip "what the app does is in turns of the engine on fibers of Abaca's own only" unless MODE.empty?

    begun = written = false
    running = serve(spare_loops: 0) do |env|
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.3
      begun = true
      nil until written && Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      ANSWER.call(env)
    end
    clients = Array.new(3) { connect(running) }
    clients.first.write(GET)
    assert eventually { begun }
    clients.drop(1).each { |client| client.write(GET) } # while it computes, so that they are read together
    written = true
    assert_operator clients.map { |client| Float(client.read.body) }.max, :>=, 0.29
  end

  def test_a_proxy_knows_since_when
    running = serve(ANSWER)
    { "t=%.3f" => 1, "%.3f" => 1, "t=%d" => 1000, "%d" => 1_000_000 }.each do |form, scale|
      now = Process.clock_gettime(Process::CLOCK_REALTIME)
      start = format(form, (now - 2) * scale)
      queued = told(running, "X-Request-Start" => start)
      assert_includes 1.9..(Process.clock_gettime(Process::CLOCK_REALTIME) - now + 3.1), queued, start
    end
  end

  def test_what_cannot_be_is_not_believed
    running = serve(ANSWER)
    now = Process.clock_gettime(Process::CLOCK_REALTIME)
    ["soon", "", (now + 60).to_s, (now - 3600).to_s, "0", "-1", "9" * 400].each do |start|
      assert_operator told(running, "X-Request-Start" => start), :<, 20, start
    end
  end

  def test_the_field_itself_is_there_too
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["HTTP_X_REQUEST_START"]]] }
    assert_equal "t=1", ask(running, request("GET", "/", "X-Request-Start" => "t=1")).body
  end
end
