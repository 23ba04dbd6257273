# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/computing"
require "support/server_case"

# What goes wrong on a thread: it is the request's affair, or the process's, but never another request's.
class ThreadsFaultTest < Minitest::Test
  include ServerCase

  WAYS = [{ mode: :thread, threads: [0, 4], routes: [] },
          { mode: :fiber, threads: [0, 4], routes: [[:thread, "*"]] }].freeze

  # A request for "/", that takes whatever thread there is, is answered.
  def assert_serves(running) = assert_equal(200, ask(running).status)

  # Calls the block with a server for each way; `work` is what "/work" does.
  def each_way(work, **options)
    WAYS.each do |way|
      running = serve(lint: false, **way, **options) do |env|
        work.call(env) if env["PATH_INFO"] == "/work"
        [200, TYPE.dup, ["done"]]
      end
      yield running
      finish(running)
    end
  end

  WORK = "GET /work HTTP/1.1\r\nHost: a.test\r\n\r\n"

  def test_a_request_that_ends_its_thread
    [-> { Thread.current.kill }, -> { Thread.exit }].each do |way_out|
      each_way(->(_env) { way_out.call }, threads: [0, 1]) do |running|
        assert_equal 500, ask(running, WORK).status
        2.times { assert_serves(running) }
        assert_equal 1, running.server.stats.dig(:thread_pool, :threads)
      end
    end
  end

  def test_an_exception_of_the_app
    each_way(->(_env) { raise "in the app" }) do |running|
      assert_equal 500, ask(running, WORK).status
      assert running.logged?(/error in the app: RuntimeError: in the app/)
      assert_serves(running)
    end
  end

  # Somebody has kept the thread of an earlier request.
  def test_an_exception_for_an_idle_thread
    threads = Queue.new
    each_way(->(_env) { threads << Thread.current }) do |running|
      ask(running, WORK)
      thread = threads.pop
      assert eventually { running.server.stats.dig(:thread_pool, :busy).zero? }
      thread.raise("too late")
      assert(eventually { !thread.pending_interrupt? })
      assert_serves(running)
      assert thread.alive?
      thread.kill
      assert_serves(running)
    end
  end

  # Half a second, of which the request may take 0.2.
  def compute_beyond_deadline(env)
    env["abaca.client"].request_timeout = 0.2
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.5
    Computing::STEP.call(1_000) while Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
  end

  # It comes where the thread waits, and not in the middle of what it computes.
  def test_a_deadline_does_not_tear_a_computation
    seen = Queue.new
    work = lambda do |env|
      compute_beyond_deadline(env)
      seen << :computed
      sleep
    end
    each_way(work) do |running|
      assert_equal 504, ask(running, WORK).status
      assert_equal :computed, seen.pop
      assert eventually { running.server.stats.dig(:modes, :thread, :cancelled) == 1 }
    end
  end

  # Who raises may have to wait, and the request ends before: its thread goes on when the exception has come.
  def test_an_exception_that_is_on_its_way_is_nobody_elses
    gate = Queue.new
    raising = Queue.new
    begun = Queue.new
    running = serve(lint: false, mode: :thread, threads: [0, 1], routes: []) do |env|
      env["PATH_INFO"] == "/work" ? await_exception(env, raising, gate) : begun << true
      [200, TYPE.dup, ["done"]]
    end
    assert_equal 200, ask(running, WORK).status
    client = connect(running).write(GET)
    nothing_for(0.3) { begun.empty? }
    gate << true
    assert_equal 200, client.read.status
  end

  # Has the server raise, from a thread that waits at the gate before it does.
  def await_exception(env, raising, gate)
    Thread.current.define_singleton_method(:raise) { |*args| (raising << true) && gate.pop && super(*args) }
    env["abaca.deadline"].on_cancel { nil }
    env["abaca.client"].request_timeout = 0.02
    raising.pop
  end

  # The request was over before the exception reached it: nobody else gets it.
  def test_a_deadline_that_comes_too_late_is_nobodys
    each_way(method(:compute_beyond_deadline), threads: [0, 1]) do |running|
      client = connect(running)
      assert_equal 200, client.call(WORK).status
      3.times do
        assert_equal 200, client.call(GET).status
        nothing_for(0.01)
      end
    end
  end

  def test_a_request_that_waits_too_long_for_a_thread_gets_503
    gate = Queue.new
    each_way(->(_env) { gate.pop }, threads: [0, 1], queue_timeout: 1) do |running|
      busy = connect(running).write(WORK)
      assert eventually { running.server.stats.dig(:thread_pool, :busy) == 1 }
      # One that is there already: the listener rests while nobody can serve.
      assert_equal 503, ask(running).status
      gate << true
      assert_equal 200, busy.read.status
      assert_serves(running)
    end
  end

  # Its client has gone before there was a thread for it: it is not run.
  def test_a_request_that_nobody_waits_for_is_not_run
    gate = Queue.new
    runs = Queue.new
    running = serve(lint: false, mode: :fiber, threads: [0, 1], routes: [[:thread, "*"]]) do |env|
      runs << env["PATH_INFO"]
      gate.pop if env["PATH_INFO"] == "/work"
      [200, TYPE.dup, ["done"]]
    end
    busy = connect(running).write(WORK)
    assert eventually { runs.size == 1 }
    gone = connect(running).write(request("GET", "/gone"))
    assert eventually { running.server.stats.dig(:thread_pool, :waiting) == 1 }
    gone.reset
    assert eventually { running.server.stats.dig(:thread_pool, :waiting).zero? }
    gate << true
    assert_equal 200, busy.read.status
    assert_serves(running)
    assert_equal ["/work", "/"], Array.new(runs.size) { runs.pop }
  end

  # At the end of the server nothing is waited for for ever.
  def test_who_computes_on_is_killed_with_the_server
    stop = false
    begun = Queue.new
    work = lambda do |_env|
      begun << Thread.current
      Computing::STEP.call(1_000) until stop
    end
    each_way(work, force_shutdown_after: 0.2) do |running|
      client = connect(running).write(WORK)
      thread = begun.pop
      running.stop
      assert eventually { !thread.alive? }
      assert_equal 503, client.read.status
    end
  ensure
    stop = true
  end

  def test_a_request_may_end_the_process
    [SystemExit, Interrupt].each do |error|
      WAYS.each do |way|
        running = serve(lint: false, **way) { raise error, "" }
        running.thread.report_on_exception = false
        connect(running).write(GET)
        assert_raises(error) { running.thread.join(20) }
        running.thread = nil
      end
    end
  end
end
