# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/computing"
require "support/server_case"

# Mode :hybrid: which requests move a route to threads, which bring it back, and what becomes of those that are
# there.
class ThreadsHybridTest < Minitest::Test
  include ServerCase

  # Far above what a request needs that does nothing, also where others use the machine. What computes takes half as
  # much again.
  THRESHOLD = 200 # ms
  SLOW = 0.3
  HYBRID = { mode: :hybrid, threads: [0, 8], routes: [], hybrid_threshold: THRESHOLD, hybrid_requests: 20 }.freeze
  # Whoever has answered once runs on threads.
  AT_ONCE = { **HYBRID, hybrid_threshold: 0.001, hybrid_requests: 1 }.freeze

  # By the thread's own clock: what it computes is what counts where others compute as well.
  def self.compute(seconds)
    limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
    nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
  end

  # What the requests for /slow do; all others do nothing.
  def app(work = -> { ThreadsHybridTest.compute(SLOW) })
    lambda do |env|
      work.call if env["PATH_INFO"].start_with?("/slow")
      [200, TYPE.dup, [env["abaca.mode"].to_s]]
    end
  end

  def get(path) = request("GET", path)

  def hybrid(running) = running.server.stats.dig(:modes, :hybrid)
  def promoted(running) = hybrid(running).fetch(:routes).map { |route| route.fetch(:path) }

  # How requests for these paths were run, one after another.
  def modes(running, *paths)
    client = connect(running)
    paths.map { |path| client.call(get(path)).body }
  end

  # Has a route of a server AT_ONCE on threads.
  def promote(running, path, route = path)
    ask(running, get(path))
    assert eventually { promoted(running).include?(route) }, route
  end

  # By ids that differ: /page/1 and /page/2 are one route.
  def test_two_slow_ones_of_twenty_move_a_route
    running = serve(app(->(*) {}), **HYBRID)
    modes(running, *Array.new(30) { |nth| "/page/#{nth}" })
    assert_empty promoted(running)

    running = serve(**HYBRID) do |env|
      ThreadsHybridTest.compute(SLOW) if env["QUERY_STRING"] == "slow"
      [200, TYPE.dup, [env["abaca.mode"].to_s]]
    end
    one = Array.new(25) { |nth| "/one/#{nth}" } << "/one/99?slow"
    assert_equal ["fiber"] * 26, modes(running, *one)
    two = Array.new(17) { |nth| "/two/#{nth}" } << "/two/98?slow" << "/two/99?slow"
    assert_equal ["fiber"] * 19, modes(running, *two)
    assert_empty promoted(running)
    assert_equal %w[fiber thread], modes(running, "/two/100", "/two/101")
    assert_equal %w[/two/*], promoted(running)
    assert_equal %w[fiber], modes(running, "/one/1")
  end

  def test_it_is_said_in_the_log_and_the_figures
    running = serve(app, **HYBRID, hybrid_requests: 2)
    assert_equal({ promoted: 0, demoted: 0, routes: [] }, hybrid(running))
    modes(running, "/slow/1", "/slow/2")
    line = %r{warning: requests for /slow/\* keep the loop \(p95 \d{3,}\.\d ms of 2\): they run on threads}
    assert running.logged?(line), running.log
    assert_equal [1, 0], hybrid(running).values_at(:promoted, :demoted)
    assert_equal [["/slow/*", 0.0, 0]], hybrid(running)[:routes].map(&:values)
    modes(running, "/slow/3")
    assert eventually { hybrid(running)[:routes].first[:requests] == 1 }
    assert_operator hybrid(running)[:routes].first[:p95], :>, 0.0
    assert_nil serve(HELLO, mode: :fiber, routes: []).server.stats[:modes][:hybrid]
  end

  # Nobody is kept by them: those who sleep, who wait in a fiber that they have resumed, who compute in pieces.
  NO_STALLS = {
    "sleeps" => -> { sleep SLOW },
    "waits for a thread" => -> { Thread.new { sleep SLOW }.join },
    "makes room" => -> { 60.times { ThreadsHybridTest.compute(SLOW / 60) || sleep(0) } },
    "makes room in another fiber" => lambda {
      Fiber.new(blocking: false) { 60.times { ThreadsHybridTest.compute(SLOW / 60) || sleep(0.001) } }.resume
    },
    "has others compute" => -> { Fiber.schedule { ThreadsHybridTest.compute(SLOW) } }
  }.freeze

  def test_who_waits_does_not_move
    NO_STALLS.each do |name, work|
      running = serve(app(work), **HYBRID, hybrid_requests: 1)
      assert_equal %w[fiber] * 2, modes(running, *["/slow"] * 2), name
      finish(running)
      assert_empty promoted(running), name
    end
  end

  STALLS = {
    "computes" => -> { ThreadsHybridTest.compute(SLOW) },
    "computes after a wait" => -> { sleep(0.001) && ThreadsHybridTest.compute(SLOW) },
    "computes in a fiber" => -> { Fiber.new(blocking: false) { ThreadsHybridTest.compute(SLOW) }.resume },
    "computes after a wait in a fiber" => lambda {
      Fiber.new(blocking: false) { sleep 0.001 }.resume
      ThreadsHybridTest.compute(SLOW)
    },
    "blocks" => -> { Fiber.new(blocking: true) { sleep SLOW }.resume },
    "raises at last" => -> { ThreadsHybridTest.compute(SLOW) || raise("on purpose") }
  }.freeze

  def test_who_keeps_the_loop_moves
    STALLS.each do |name, work|
      running = serve(app(work), **HYBRID, hybrid_requests: 1)
      ask(running, get("/slow"))
      assert eventually { promoted(running) == ["/slow"] }, name
      finish(running)
    end
  end

  # With a quantum it makes room for others every time, and only takes longer.
  def test_who_is_preempted_does_not_move
    work = -> { ThreadsHybridTest.compute(1.5) }
    running = serve(app(work), **HYBRID, hybrid_requests: 1, hybrid_threshold: 1000, quantum: 20)
    modes(running, "/slow")
    running.stop
    assert_empty promoted(running)
  end

  # The GVL is passed on to the burners in the middle of these; that is not what they have done.
  def test_who_waits_for_the_lock_does_not_move
    stop = false
    running = serve(**HYBRID, hybrid_requests: 1, routes: [[:thread, "/burn"]]) do |env|
      env["PATH_INFO"] == "/burn" ? (Computing::STEP.call(1_000) until stop) : ThreadsHybridTest.compute(0.01)
      [200, TYPE.dup, [env["abaca.mode"].to_s]]
    end
    burners = Array.new(4) { connect(running).write(get("/burn")) }
    assert eventually { running.server.stats.dig(:thread_pool, :busy) == 4 }
    assert_equal %w[fiber] * 10, modes(running, *["/light"] * 10)
    stop = true
    burners.each { |client| assert_equal "thread", client.read.body }
    assert_empty promoted(running)
  ensure
    stop = true
  end

  def test_a_route_comes_back_when_it_has_behaved
    slow = true
    running = serve(app(-> { ThreadsHybridTest.compute(SLOW) if slow }), **HYBRID, hybrid_requests: 1)
    modes(running, "/slow")
    slow = false
    assert eventually { promoted(running) == ["/slow"] }
    assert_equal ["thread"] * 100, modes(running, *["/slow"] * 100)
    assert eventually { promoted(running).empty? }
    assert running.logged?(%r{^requests for /slow behave \(p95 \d+\.\d ms of 100\): they run on fibers again$})
    assert_equal ["fiber"], modes(running, "/slow")
    slow = true
    modes(running, "/slow")
    slow = false
    # A relapse: now it takes twice as long.
    assert eventually { promoted(running) == ["/slow"] }
    assert_equal ["thread"] * 150, modes(running, *["/slow"] * 150)
    assert_equal [2, 1], hybrid(running).values_at(:promoted, :demoted)
  end

  def test_patterns_are_routes_of_their_own
    routes = [[:hybrid, "/slow/*"], [:hybrid, "/x/*"], [:thread, "/t"], [:fiber, "/f"]]
    %i[fiber hybrid].each do |mode|
      running = serve(app, **HYBRID, mode:, routes:, hybrid_requests: 2)
      modes(running, "/slow/a", "/slow/b/c")
      assert_equal %w[/slow/*], promoted(running)
      assert_equal %w[thread fiber thread fiber], modes(running, "/%73low/other", "/x/y", "/t", "/f")
    end
  end

  # Mode thread with a hybrid route has a loop, for what behaves there.
  def test_beside_mode_thread
    running = serve(app, **HYBRID, mode: :thread, routes: [[:hybrid, "/h"]])
    assert_equal %w[thread fiber], modes(running, "/x", "/h")
  end

  # Clients choose paths: they can have neither all the memory, nor the place of a route that is used.
  def test_ten_thousand_paths
    running = serve(TELL_MODE, lint: false, **AT_ONCE)
    promote(running, "/report")
    paths = Array.new(10_000) { |nth| "/#{nth.to_s(26).tr('0-9', 'q-z')}" }
    before = resident
    paths.each_slice(100) do |some|
      client = connect(running)
      some.each { |path| client.write(get(path)) }
      assert_equal some, some.map { client.read.body[/\S+\z/] }
      assert_equal "thread /report", client.call(get("/report")).body
    end
    assert_operator promoted(running).size, :<=, 257
    assert_includes promoted(running), nil # those that found no place share one
    assert_operator resident - before, :<, 50_000_000
  end

  TELL_MODE = ->(env) { [200, TYPE.dup, ["#{env['abaca.mode']} #{env['PATH_INFO']}"]] }

  def resident = File.read("/proc/self/statm").split[1].to_i * 4096

  def test_responses_come_in_order
    running = serve(TELL_MODE, **AT_ONCE, routes: [[:fiber, "/f*"]])
    promote(running, "/t")
    client = connect(running)
    paths = Array.new(60) { |nth| nth % 3 == 1 ? "/t" : "/f#{nth}" }
    3.times do
      paths.each_slice(20) do |some|
        client.write(some.map { |path| get(path) }.join)
        expected = some.map { |path| "#{path == '/t' ? 'thread' : 'fiber'} #{path}" }
        assert_equal(expected, some.map { client.read.body })
      end
    end
  end

  # What comes while the route moves is answered all the same, wherever it began.
  def test_a_route_moves_in_the_middle
    running = serve(TELL_MODE, **AT_ONCE)
    clients = Array.new(10) { connect(running).write(get("/a") * 10) }
    clients.each { |client| 10.times { assert_match(%r{\A(fiber|thread) /a\z}, client.read.body) } }
    assert_equal %w[/a], promoted(running)
  end

  def test_what_goes_wrong_on_a_thread
    running = serve(lint: false, **AT_ONCE) do |env|
      case env["QUERY_STRING"]
      when "raise" then raise "on purpose"
      when "kill" then Thread.current.kill
      when "throw" then throw :nothing
      end
      TELL_MODE.call(env)
    end
    promote(running, "/a")
    %w[raise kill throw].each do |how|
      assert_equal 500, ask(running, get("/a?#{how}")).status, how
      assert_equal "thread /a", ask(running, get("/a")).body, how
    end
  end

  # As with a thread route: the engine gathers the body, and the one thread there may be is free meanwhile.
  def test_a_slow_upload_occupies_no_thread
    running = serve(lint: false, **AT_ONCE, threads: [0, 1]) do |env|
      [200, TYPE.dup, ["#{env['abaca.mode']} #{env['rack.input']&.read}"]]
    end
    promote(running, "/a")
    upload = connect(running).write(request("POST", "/a", body: "123456")[0..-4])
    assert eventually { running.server.stats[:gathering] == 1 }
    assert_equal "thread ", ask(running, get("/a")).body
    assert_equal "thread 123456", upload.write("456").read.body
  end

  def test_deadlines_and_cancellation
    ends = Queue.new
    running = serve(**AT_ONCE, request_timeout: 1) do |env|
      sleep if env["QUERY_STRING"] == "sleep"
      TELL_MODE.call(env)
    ensure
      ends << true
    end
    promote(running, "/a")
    assert_equal 504, ask(running, get("/a?sleep")).status
    2.times { ends.pop }
    assert_empty ends
    assert_equal "thread /a", ask(running, get("/a")).body
  end

  def test_the_shutdown_waits_for_them
    gate = Queue.new
    running = serve(**AT_ONCE) do |env|
      gate.pop if env["QUERY_STRING"] == "wait"
      TELL_MODE.call(env)
    end
    promote(running, "/a")
    clients = %w[/a?wait /b?wait].map { |path| connect(running).write(get(path)) }
    assert eventually { running.server.stats[:in_app] == 2 }
    running.server.stop
    assert eventually { refused?(running) }
    2.times { gate << true }
    assert_equal(["thread /a", "fiber /b"], clients.map { |client| client.read.body })
    running.stop
  end

  def test_the_shutdown_breaks_them_off
    running = serve(**AT_ONCE, shutdown_timeout: 0.2) do |env|
      sleep if env["QUERY_STRING"] == "wait"
      TELL_MODE.call(env)
    end
    promote(running, "/a")
    clients = %w[/a?wait /b?wait].map { |path| connect(running).write(get(path)) }
    assert eventually { running.server.stats[:in_app] == 2 }
    running.stop
    assert_equal([503, 503], clients.map { |client| client.read.status })
  end

  def test_settings
    { hybrid_threshold: [0, -1, 60_001, "x", nil, Float::NAN], hybrid_requests: [0, 129, 1.5, "x", nil] }
      .each do |name, values|
        values.each do |value|
          error = assert_raises(Abaca::ConfigError) { Abaca::Config.new({ mode: :hybrid, name => value }) }
          assert_match(/\A#{name}: .* not /, error.message)
        end
      end
    config = Abaca::Config.new({ mode: "hybrid", hybrid_threshold: "12.5", hybrid_requests: "128" })
    assert_equal [:hybrid, 12.5, 128], [config[:mode], config[:hybrid_threshold], config[:hybrid_requests]]
    assert_equal [50.0, 20], Abaca::Config.new.to_h.values_at(:hybrid_threshold, :hybrid_requests)
    assert_empty config.warnings
    assert_match(/`hybrid_requests' has no effect/, Abaca::Config.new({ hybrid_requests: 5 }).warnings.join)
    assert_empty Abaca::Config.new({ routes: [[:hybrid, "/a"]], hybrid_requests: 5, threads: 3 }).warnings
  end

  def test_a_foreign_scheduler_does_not_tell
    { mode: :hybrid, routes: [[:hybrid, "/a"]] }.each do |name, value|
      error = assert_raises(Abaca::ConfigError) do
        Abaca::Server.new(HELLO, { fiber_scheduler: "PlainScheduler", name => value })
      end
      assert_match(/fiber_scheduler: PlainScheduler does not tell how long/, error.message)
    end
    own = Class.new(Abaca::Scheduler)
    assert_equal "fiber", ask(serve(app, **HYBRID, fiber_scheduler: own)).body
  end
end
