# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/computing"
require "support/server_case"

# Requests on threads: which of them, by mode and route, and what they find there.
class ThreadsModesTest < Minitest::Test
  include ServerCase

  TELL = ->(env) { [200, TYPE.dup, ["#{env['abaca.mode']} #{Thread.current.name}"]] }
  ON_THREADS = { mode: :thread, threads: [0, 8], routes: [] }.freeze
  # Every way to come to a thread.
  WAYS = { "mode" => ON_THREADS, "route" => { mode: :fiber, threads: [0, 8], routes: [[:thread, "*"]] },
           "guest" => { fiber_scheduler: "PlainScheduler", mode: :fiber, threads: [0, 8],
                        routes: [[:thread, "*"]] } }.freeze

  def get(path) = request("GET", path)

  # How a request for `path` was run.
  def mode_of(running, path) = ask(running, get(path)).body[/\A\w+/]

  def test_the_app_is_told
    WAYS.each do |name, way|
      running = serve(TELL, **way)
      assert_match(/\Athread abaca thread \d+\z/, ask(running).body, name)
    end
    assert_equal "fiber", mode_of(serve(TELL, mode: :fiber, routes: []), "/")
  end

  def test_routes_decide_and_the_first_that_matches_counts
    routes = [[:fiber, "/reports/live"], [:thread, "/reports/*"], [:thread, "*.pdf"]]
    running = serve(TELL, mode: :fiber, routes: routes)
    expected = { "/" => "fiber", "/reports/live" => "fiber", "/reports" => "thread", "/reports/x/y?z" => "thread",
                 "/%72eports/1" => "thread", "/a.pdf" => "thread", "/a.pdf/b" => "fiber" }
    assert_equal(expected, expected.to_h { |path, _| [path, mode_of(running, path)] })
    running = serve(TELL, mode: :thread, routes: [[:fiber, "/live/*"]])
    assert_equal %w[fiber thread], [mode_of(running, "/live/1"), mode_of(running, "/")]
  end

  # A thread route's request comes after one for a fiber on the same connection, and the other way round.
  def test_modes_change_on_one_connection
    running = serve(TELL, mode: :fiber, routes: [[:thread, "/t*"]])
    client = connect(running)
    paths = %w[/t /f /t /t /f]
    paths.each { |path| client.write(get(path)) }
    assert_equal %w[thread fiber thread thread fiber], paths.map { client.read.body[/\A\w+/] }
  end

  # Pages of errors read sources by it, Rails's say, and fail where there is none.
  def test_every_frame_of_a_backtrace_has_a_path
    app = lambda do |_env|
      raise "something"
    rescue RuntimeError => e
      [200, TYPE.dup, [e.backtrace_locations.map { |frame| frame.path ? "with" : frame.label }.uniq.inspect]]
    end
    WAYS.merge("fiber" => { mode: :fiber, routes: [] }).each do |name, way|
      assert_equal "[\"with\"]", ask(serve(app, **way)).body, name
    end
  end

  def test_threads_are_few_and_are_used_again
    WAYS.each do |name, way|
      running = serve(TELL, **way)
      client = connect(running)
      names = Array.new(20) { client.call(GET).body.tap { assert eventually { threads_rest? } } }.uniq
      assert_operator names.size, :<=, 3, name
    end
  end

  def test_no_more_requests_at_once_than_threads
    WAYS.each do |name, way|
      busy = Queue.new
      gate = Queue.new
      running = serve(**way, threads: [1, 3]) do
        busy << true
        gate.pop
        HELLO.call(nil)
      end
      clients = Array.new(8) { connect(running).write(GET) }
      assert eventually { busy.size == 3 }, name
      nothing_for(0.1) { busy.size <= 3 }
      assert_equal [3, 3], running.server.stats.fetch(:thread_pool).values_at(:threads, :busy)
      8.times { gate << true }
      assert_equal [200] * 8, clients.map { |client| client.read.status }
      finish(running)
    end
  end

  # It is cleaned after its request, which takes time here; who comes meanwhile needs no queue.
  def test_a_thread_between_two_requests_is_no_busy_one
    running = serve(**WAYS.fetch("route"), threads: [0, 1], max_queue: 0, clean_thread_locals: true) do |env|
      60_000.times { |nth| Thread.current.thread_variable_set("v#{nth}", nth) } if env["PATH_INFO"] == "/dirt"
      HELLO.call(env)
    end
    client = connect(running)
    assert_equal 200, client.call(get("/dirt")).status
    assert eventually { running.server.stats.fetch(:thread_pool).fetch(:busy).zero? }
    assert_equal 200, client.call(GET).status
  end

  def test_the_least_threads_are_there_from_the_start
    WAYS.each do |name, way|
      running = serve(TELL, **way, threads: [2, 3])
      assert eventually { Thread.list.count { |one| one.name.to_s.include?("abaca thread") && one.stop? } == 2 }, name
      assert_equal 2, running.server.stats.dig(:thread_pool, :threads)
      ask(running)
      assert_equal 2, running.server.stats.dig(:thread_pool, :threads)
      finish(running)
    end
  end

  # Who waits and who computes holds up nobody, while there are threads.
  def test_others_are_served_meanwhile
    computes = ->(gate) { Computing::STEP.call(1_000) while gate.empty? }
    { "waits" => :pop.to_proc, "computes" => computes }.each do |name, work|
      WAYS.each do |way_name, way|
        gate = Queue.new
        running = serve(**way) do |env|
          work.call(gate) if env["PATH_INFO"] == "/long"
          HELLO.call(env)
        end
        long = connect(running).write(get("/long"))
        5.times { assert_equal 200, ask(running).status, "#{name}, #{way_name}" }
        gate << true
        assert_equal 200, long.read.status
        finish(running)
      end
    end
  end

  # Those that compute would keep Ruby's lock for 100 ms each: they are told to pass it on. So ten answers
  # beside four of them take some ten rounds of a few milliseconds; ten rounds of 400 ms would be 4 s.
  def test_the_lock_is_passed_on
    stop = false
    running = serve(**ON_THREADS) do |env|
      Computing::STEP.call(1_000) until stop || env["PATH_INFO"] != "/long"
      HELLO.call(env)
    end
    long = Array.new(4) { connect(running).write(get("/long")) }
    assert eventually { running.server.stats.dig(:thread_pool, :busy) == 4 }
    client = connect(running)
    10.times { assert_equal 200, client.call(GET).status }
    assert(eventually { running.server.stats.dig(:modes, :thread, :in_flight) == 4 })
    stop = true
    long.each { |waiting| assert_equal 200, waiting.read.status }
  ensure
    stop = true
  end

  def test_what_a_request_leaves_on_its_thread
    app = lambda do |env|
      seen = [Thread.current[:local], Thread.current.thread_variable_get(:variable)]
      Thread.current[:local] = Thread.current.thread_variable_set(:variable, env["PATH_INFO"])
      [200, TYPE.dup, [seen.inspect]]
    end
    WAYS.each do |name, way|
      { true => "[nil, nil]", false => '["/1", "/1"]' }.each do |clean, expected|
        running = serve(app, **way, threads: [0, 1], clean_thread_locals: clean)
        ask(running, get("/1"))
        assert_equal expected, ask(running, get("/2")).body, "#{name}, #{clean}"
        finish(running)
      end
    end
  end

  # What the thread that calls run has is not the requests'.
  def test_threads_begin_clean
    WAYS.each do |name, way|
      running = serve(**way) { [200, TYPE.dup, [[Thread.current[:mine], storage].inspect]] }
      assert_equal "[nil, nil]", ask(running).body, name
    end
  end

  def storage = Fiber.respond_to?(:[]) ? Fiber[:mine] : nil

  def test_settings_that_mean_nothing
    [{ mode: :process }, { threads: [3, 2] }, { threads: [0, 0] }, { threads: ["x", 1] }, { threads: [] },
     { routes: [[:thread, "reports"]] }, { routes: [[:process, "/x"]] },
     { mode: :thread, fiber_scheduler: "PlainScheduler" }].each do |options|
      assert_raises(Abaca::ConfigError, options.inspect) { Abaca::Server.new(HELLO, options) }
    end
    assert_equal [3, 3], Abaca::Server.new(HELLO, mode: "thread", threads: 3).config[:threads]
    assert Abaca::Server.new(HELLO, fiber_per_request: true).config[:clean_thread_locals], "as Puma calls it"
  end
end
