# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "net/http"
require "support/server_case"

# A guest has other times than its own while a block runs.
module GuestTimes
  def with_time(name, seconds)
    before = Abaca::Guest.const_get(name)
    redefine(name, seconds)
    yield
  ensure
    redefine(name, before)
  end

  private

  def redefine(name, seconds)
    Abaca::Guest.send(:remove_const, name)
    Abaca::Guest.const_set(name, seconds)
    Abaca::Guest.private_constant(name)
  end
end

# A server on a scheduler that is not Abaca's. The tests of the wire run there as well, by `rake pairs`.
module GuestTests
  include ServerCase
  include GuestTimes

  def host(app = nil, **options, &block) = serve(app, fiber_scheduler: scheduler, **options, &block)

  def test_hello_on_that_scheduler
    running = host { [200, TYPE.dup, ["#{Fiber.scheduler.class} #{Fiber.current.blocking?}"]] }
    client = connect(running)
    3.times { assert_equal "#{scheduler} false", client.call(GET).body }
    refute_predicate running.server, :native?
    assert_equal 3, running.server.stats[:requests]
  end

  def test_pipelined_requests_are_answered_in_order
    running = host { |env| [200, TYPE.dup, [env["PATH_INFO"]]] }
    client = connect(running)
    client.write((1..50).map { |number| request("GET", "/#{number}") }.join)
    assert_equal((1..50).map { |number| "/#{number}" }, Array.new(50) { client.read.body })
  end

  def test_two_hundred_requests_sleep_at_once
    nights = true
    running = host do
      sleep 0.1 while nights
      [200, TYPE.dup, ["awake"]]
    end
    clients = Array.new(200) { connect(running).write(GET) }
    assert eventually { running.server.stats[:in_app] == 200 }
    nights = false
    assert_equal ["awake"], clients.map { |client| client.read.body }.uniq
    assert_equal 200, running.server.stats[:requests]
  end

  def test_fan_out_by_net_http
    upstream = serve do
      sleep 0.1
      [200, TYPE.dup, ["up"]]
    end
    front = host do
      queue = Queue.new
      5.times { Fiber.schedule { queue << Net::HTTP.get(URI("http://127.0.0.1:#{upstream.port}/")) } }
      [200, TYPE.dup, [Array.new(5) { queue.pop }.join]]
    end
    assert_equal "up" * 5, ask(front).body
  end

  def test_a_body_is_held_up_by_a_slow_client_and_holds_up_nobody
    written = 0
    running = host(max_pending_output: 100_000) do |env|
      next [200, TYPE.dup, ["quick"]] unless env["PATH_INFO"] == "/stream"

      parts = Enumerator.new do |body|
        400.times do
          body << ("x" * 50_000)
          written += 1
        end
      end
      [200, TYPE.dup, Each.new(parts)]
    end
    slow = connect(running, receive_buffer: 4096).write(request("GET", "/stream"))
    assert eventually { written.positive? }
    assert_equal "quick", ask(running).body
    assert_operator written, :<, 400, "20 MB went into the buffers of a client that reads nothing"
    assert_equal 20_000_000, slow.read.body.bytesize
  end

  def test_a_streaming_body_writes_from_a_fiber_of_its_own
    skip "Rack 2 has no streaming bodies" if Rack.release < "3"
    running = host(lint: false) do
      body = lambda do |stream|
        Fiber.schedule do
          3.times do |number|
            sleep 0.02
            stream.write("#{number};")
          end
          stream.close
        end
      end
      [200, TYPE.dup, body]
    end
    assert_equal "0;1;2;", ask(running).body
  end

  def test_expect_continue
    running = host { |env| [200, TYPE.dup, [env["rack.input"].read]] }
    client = connect(running)
    client.write(request("POST", "/", "Expect" => "100-continue", "Content-Length" => "5"))
    assert_equal 100, client.read_interim.status
    assert_equal "hello", client.call("hello").body
  end

  def test_clients_that_go_away
    running = host do
      sleep 0.1
      [200, TYPE.dup, ["x" * 100_000]]
    end
    20.times { connect(running).write(GET).reset }
    assert eventually { running.server.stats.values_at(:connections, :in_app) == [0, 0] }
    assert_equal 200, ask(running).status
  end

  def test_a_client_that_goes_away_in_its_response
    failure = Queue.new
    running = host do
      parts = Enumerator.new do |body|
        10_000.times { body << ("x" * 50_000) }
      rescue Abaca::PeerError => e
        failure << e
        raise
      end
      [200, TYPE.dup, Each.new(parts)]
    end
    client = connect(running, receive_buffer: 4096).write(GET)
    client.read_some
    client.reset
    assert eventually { !failure.empty? }
    assert_equal "", running.log
  end

  def test_the_limit_of_fibers
    gate = Queue.new
    running = host(max_fibers: 2) do
      gate.pop
      [200, TYPE.dup, ["through"]]
    end
    clients = Array.new(5) { connect(running).write(GET) }
    assert eventually { gate.num_waiting == 2 }
    assert_equal 2, running.server.stats[:in_app]
    5.times { gate << true }
    assert_equal ["through"], clients.map { |client| client.read.body }.uniq
  end

  def test_a_fiber_is_as_new_for_its_next_request
    seen = []
    running = host do
      fiber = Fiber.current
      seen << [fiber.object_id, Thread.current[:left], fiber.instance_variable_get(:@left), storage,
               fiber.instance_variables]
      Thread.current[:left] = fiber.instance_variable_set(:@left, 1)
      Fiber[:left] = 1 if Fiber.respond_to?(:[]=)
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running)
    4.times { client.call(GET) }
    assert_equal 1, seen.uniq.size, "either another fiber, or something was left on it: #{seen}"
  end

  def test_errors_of_the_app
    running = host(lint: false) { |env| env["PATH_INFO"] == "/" ? raise("the reason") : [200, TYPE.dup, ["fine"]] }
    client = connect(running)
    assert_equal 500, client.call(GET).status
    assert running.logged?(/the reason/)
    assert_equal "fine", client.call(request("GET", "/fine")).body
  end

  def test_stop_waits_for_requests
    stopped = false
    running = host do
      sleep 0.01 until stopped
      sleep 0.3
      [200, TYPE.dup, ["answered"]]
    end
    clients = Array.new(20) { connect(running).write(GET) }
    assert eventually { running.server.stats[:in_app] == 20 }
    running.server.stop
    stopped = true
    running.stop
    assert_equal ["answered"], clients.map { |client| client.read.body }.uniq
  end

  def test_stop_raises_in_requests_that_are_too_slow
    reasons = Queue.new
    @held = Mutex.new.tap(&:lock)
    running = host(force_shutdown_after: 0.2) { |env| wait_for_ever(env["PATH_INFO"], reasons) }
    clients = %w[/sleep /queue /io /mutex].map { |path| connect(running).write(request("GET", path)) }
    assert eventually { running.server.stats[:in_app] == 4 }
    running.stop
    assert_equal [503], clients.map { |client| client.read.status }.uniq, running.log
    assert_equal [Abaca::Shutdown], Array.new(4) { reasons.pop.class }.uniq
  end

  def test_halt_raises_in_requests_at_once
    reasons = Queue.new
    running = host(force_shutdown_after: nil) { |env| wait_for_ever(env["PATH_INFO"], reasons) }
    clients = Array.new(20) { connect(running).write(request("GET", "/sleep")) }
    assert eventually { running.server.stats[:in_app] == 20 }
    running.halt
    assert_equal [503], clients.map { |client| client.read.status }.uniq
    assert_equal 20, reasons.size
  end

  def test_halt_interrupts_a_body_that_waits_for_its_client
    ended = Queue.new
    running = host(force_shutdown_after: 60) do
      parts = Enumerator.new do |body|
        loop { body << ("x" * 50_000) }
      ensure
        ended << true
      end
      [200, TYPE.dup, Each.new(parts)]
    end
    client = connect(running, receive_buffer: 4096).write(GET)
    client.read_some
    assert eventually { running.server.stats[:in_app] == 1 }
    running.halt
    assert ended.pop
  end

  def test_fibers_that_never_end_do_not_keep_a_halted_server
    with_time(:GRACE, 600) do
      running = host do
        Fiber.schedule { sleep }
        [200, TYPE.dup, ["x"]]
      end
      assert_equal 200, ask(running).status
      running.halt
    end
  end

  private

  # A body that only has each, which runs on the request's own fiber.
  Each = Struct.new(:parts) do
    def each(&block) = parts.each(&block)
  end

  def storage = Fiber.current.respond_to?(:storage) ? Fiber[:left] : nil

  def wait_for_ever(how, reasons)
    case how
    when "/queue" then Queue.new.pop
    when "/io" then IO.pipe.then { |reader, writer| hold(reader, writer) }
    when "/mutex" then @held.synchronize { nil }
    else sleep
    end
  rescue Exception => e # rubocop:disable Lint/RescueException
    reasons << e
    raise
  end

  def hold(reader, writer)
    reader.wait_readable
  ensure
    reader.close
    writer.close
  end
end

# A server that begins to wait for the fibers that are left.
class GuestPatienceTest < Minitest::Test
  include GuestTimes

  # What ends at once, in the place of the engine.
  Engine = Struct.new(:moment, :overdue) do
    def run_as_guest(_scheduler, _max_fibers)
      Fiber.schedule { sleep }
      moment.call
      overdue
    end
  end

  def test_a_hurry_that_comes_early_is_not_lost
    guest = nil
    engine = Engine.new(-> { guest.hurry })
    thread = Thread.new { (guest = Abaca::Guest.new(engine, PlainScheduler, max_fibers: 1, log: nil, grace: 600)).run }
    assert thread.join(30), "it waits for ten minutes"
  ensure
    thread&.kill
  end

  def test_the_thread_that_ends_them_may_act_before_it_is_known
    before = Thread.list
    engine = Engine.new(-> {}, true)
    thread = Thread.new { Abaca::Guest.new(engine, PlainScheduler, max_fibers: 1, log: nil).run }
    slow_starts_of_threads(thread) { assert thread.join(30) }
    assert_empty Thread.list - before
  ensure
    (Thread.list - before).each(&:kill)
  end

  # While a fiber lets no interrupt through none comes to the thread, and one that is made then takes none either.
  def test_the_end_comes_while_a_fiber_lets_nothing_through
    assert_ends_by_itself(0.3)
  end

  def test_what_came_while_a_fiber_let_nothing_through_strikes_nobody_later
    with_time(:PAUSE, 0.05) { assert_ends_by_itself(1) }
  end

  private

  def assert_ends_by_itself(seconds)
    engine = Engine.new(-> { Fiber.schedule { Thread.handle_interrupt(Object => :never) { sleep seconds } } }, true)
    left = :nothing
    thread = Thread.new do
      Abaca::Guest.new(engine, PlainScheduler, max_fibers: 1, log: nil).run
      left = [Fiber.scheduler, Thread.pending_interrupt?]
    end
    thread.report_on_exception = false
    assert thread.join(30)
    assert_equal [nil, false], left
  ensure
    thread.kill
  end

  # Whenever the thread has started another one, that one gets time to do its work.
  def slow_starts_of_threads(thread, &block)
    trace = TracePoint.new(:c_return) do |point|
      next unless point.method_id == :new && point.self == Thread && Thread.current == thread

      over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.5
      Thread.pass until Process.clock_gettime(Process::CLOCK_MONOTONIC) > over
    end
    trace.enable(target_thread: nil, &block) # the current one alone otherwise, from Ruby 3.2 on
  end
end

# Fibers that resume and yield.
class GuestOfPlainSchedulerTest < Minitest::Test
  include GuestTests

  def scheduler = PlainScheduler

  # At the end of the server nothing is waited for for ever.
  def test_whom_no_exception_ends_on_a_thread_is_killed_with_the_server
    stop = false
    begun = Queue.new
    running = host(routes: [[:thread, "*"]], threads: [0, 1], shutdown_timeout: 0.1, force_shutdown_after: 0) do
      begun << Thread.current
      Thread.handle_interrupt(Abaca::Cancelled => :never) { sleep 0.01 until stop }
    end
    client = connect(running).write(GET)
    thread = begun.pop
    running.stop
    assert eventually { !thread.alive? }
    assert_equal 503, client.read.status
  ensure
    stop = true
  end
end

# Fibers that transfer.
class GuestOfTransferringSchedulerTest < Minitest::Test
  include GuestTests

  def scheduler = TransferringScheduler
end

# Async's own scheduler, for which Ruby 3.3 is needed.
class GuestOfAsyncTest < Minitest::Test
  include GuestTests

  def setup
    skip "async is not installed for Ruby #{RUBY_VERSION}" if RUBY_VERSION < "3.3"
    require "async"
    super
  end

  def teardown
    super unless skipped?
  end

  def scheduler = Async::Scheduler

  def test_tasks_of_the_app
    running = host do
      parent = Async::Task.current
      answers = Array.new(3) { |number| parent.async { sleep(0.01) && number } }.map(&:wait)
      [200, TYPE.dup, [answers.join]]
    end
    client = connect(running)
    3.times { assert_equal "012", client.call(GET).body }
  end
end
