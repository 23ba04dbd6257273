# frozen_string_literal: true

require "test_helper"
require "fiddle"
require "io/nonblock"
require "support/server_case"

# A server in a slot of the page: what it counts, its state, its heartbeats.
class PageServingTest < Minitest::Test
  include ServerCase

  MODES = %w[fiber thread guest:PlainScheduler].freeze

  def setup
    @page = Abaca::Page.create(slots: 2)
    super
    @slot = @page[0]
    @children = []
  end

  def teardown
    @children.each { |pid| reap(pid) }
    @gate&.close
    super
  ensure
    @page.close
  end

  # When the last heartbeat was.
  def beat = now - (@slot.beat_age || Float::INFINITY)

  # Waits for a heartbeat that is at least this many seconds later than the last one.
  def beats?(later = 0.5)
    last = beat
    eventually { beat > last + later }
  end

  def reap(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
    @children.delete(pid)
  end

  # A worker in a process of its own; returns its port and its pid.
  def worker(app, mode: "fiber", **options)
    reader, writer = IO.pipe
    @children << (pid = fork do
      server = Abaca::Server.new(app, slot: @slot.claim, **ServerCase.mode_options(mode), **options)
      writer.puts server.add_tcp_listener("127.0.0.1", 0, defer_accept: false)
      writer.close
      server.run
    ensure
      exit!(0)
    end)
    writer.close
    [Integer(reader.gets), pid]
  ensure
    reader.close
  end

  # Sends so many requests on one connection, and reads the responses.
  def send_to(port, count, path = "/")
    client = Wire::Client.new(port).tap { |one| @clients << one }
    Array.new(count) { client.call(request("GET", path)) }
  end

  def figures(*names) = @slot.figures.values_at(*names)

  def test_what_a_server_counts
    MODES.each do |mode|
      running = serve(slot: @slot.claim, **ServerCase.mode_options(mode))
      client = connect(running)
      3.times { assert_equal 200, client.call(GET).status, mode }
      assert_equal :serving, @slot.state, mode
      assert(eventually { figures(:requests, :accepted, :connections, :in_app) == [3, 1, 1, 0] }, mode)
      assert_equal figures(:received, :sent), running.server.stats.values_at(:received, :sent), mode
      running.stop
      assert_equal :draining, @slot.state, mode
      assert_equal [3, 1, 0, 0], figures(:requests, :accepted, :connections, :in_app), mode
      assert_equal [3, 1], running.server.stats.values_at(:requests, :accepted), mode
    end
    assert_equal 3 * MODES.size, @page.sums.fetch(:requests)
  end

  # Each request waits there for the gate.
  def serve_on_one_thread(**options)
    gate = @gate = Queue.new
    serve(slot: @slot.claim, routes: [[:thread, "/*"]], threads: [1, 1], **options) do
      gate.pop
      HELLO.call(nil)
    end
  end

  # What waits for a thread, and is rejected there, has not been handed to the app.
  def test_requests_that_wait_for_a_thread_count_when_they_begin
    running = serve_on_one_thread(queue_timeout: 1)
    clients = Array.new(4) { connect(running).write(GET) }
    counted = -> { [@page.sums, running.server.stats].map { |all| [all[:requests], all[:rejected][:queue_timeout]] } }
    assert eventually { running.server.stats.values_at(:in_app, :waiting) == [1, 3] }
    assert_equal [[1, 0]] * 2, counted.call
    assert_equal [503] * 3, clients.drop(1).map { |client| client.read.status }
    assert_equal [[1, 3]] * 2, counted.call
    clients << connect(running).write(GET)
    assert eventually { running.server.stats[:waiting] == 1 }
    2.times { @gate << true }
    assert_equal [200] * 2, [clients.first, clients.last].map { |client| client.read.status }
    assert_equal [[2, 3]] * 2, counted.call
  end

  # Nor is it in the app: it waits, in the figures, the history and its row.
  def test_requests_that_wait_for_a_thread_wait
    running = serve_on_one_thread
    clients = %w[/a /b /c].map { |path| connect(running).write(request("POST", path, [["Content-Length", 0]])) }
    now = -> { [@page.sums, running.server.stats].map { |all| all.values_at(:in_app, :waiting) } }
    assert eventually { now.call == [[1, 2]] * 2 }, now.call
    assert eventually { @slot.history(:seconds).last&.values_at(:in_app, :waiting) == [1, 2] }
    waiting = @page.requests.select { |row| row[:state] == :queue }
    assert_equal [["POST", "/b", :queued], ["POST", "/c", :queued]],
                 waiting.map { |row| row.values_at(:method, :path, :mode) }
    assert_equal 2, @page.states[:queue]
    clients.pop.close # it has asked nothing
    assert eventually { now.call == [[1, 1]] * 2 }, now.call
    assert_equal 1, @page.states[:queue]
    2.times { @gate << true }
    assert_equal [200] * 2, clients.map { |client| client.read.status }
    assert eventually { now.call == [[0, 0]] * 2 }, now.call
    assert_empty @page.requests
  end

  # Those that are rejected meanwhile give their rows back.
  def test_rows_of_requests_that_got_no_thread
    running = serve_on_one_thread(queue_timeout: 1)
    clients = Array.new(3) { connect(running).write(GET) }
    assert eventually { @page.states[:queue] == 2 }
    assert_equal [503] * 2, clients.drop(1).map { |client| client.read.status }
    assert_nil @page.states[:queue]
    assert_equal 1, @page.sums[:in_app]
  end

  def test_a_second_server_in_the_same_claim
    first = serve(slot: @slot.claim)
    2.times { ask(first) }
    first.stop
    second = serve(slot: @slot)
    ask(second)
    assert_equal [2, 1], [first, second].map { |running| running.server.stats.fetch(:requests) }
    assert_equal 3, @slot.figures.fetch(:requests)
  end

  # Nothing else happens, so each has to come by itself.
  def test_an_idle_server_beats
    MODES.each do |mode|
      running = serve(slot: @slot.claim, **ServerCase.mode_options(mode))
      assert eventually { @slot.state == :serving && @slot.beat_age }, mode
      assert beats?, mode
      assert eventually { @slot.turn_age < 0.5 }, mode
      running.stop
    end
  end

  # How much there is room for; what an operator changes is there at once.
  def test_limits
    assert_equal [nil, nil], @slot.process.values_at(:places, :queue_most)
    running = serve(slot: @slot.claim, mode: :fiber, max_fibers: 7, max_queue: 3)
    assert eventually { @slot.process.values_at(:places, :queue_most) == [7, 3] }
    running.server.max_queue = 0
    assert_equal [7, 0], @slot.process.values_at(:places, :queue_most)
    running.stop
    assert_raises(Abaca::Error) { @page[1].limit(1, nil) }
    @slot.claim.limit(9, nil)
    assert_equal [9, nil], @slot.process.values_at(:places, :queue_most)
  end

  # A loop is kept by a request, and another request waits; or all threads are busy. Ruby runs all the same.
  def test_a_busy_server_beats
    %w[fiber thread].each do |mode|
      over = begun = false
      running = serve(slot: @slot.claim, **ServerCase.mode_options(mode), **ServerCase.places(1)) do
        begun = true
        nil until over
        HELLO.call(nil)
      end
      clients = Array.new(2) { connect(running).write(GET) }
      assert eventually { begun }, mode
      assert beats?, mode
      over = true
      clients.each { |client| assert_equal 200, client.read.status }
      running.stop
    end
  end

  def test_a_server_that_drains_beats
    gate = Queue.new
    running = serve(slot: @slot.claim) do
      gate.pop
      HELLO.call(nil)
    end
    client = connect(running).write(GET)
    assert eventually { figures(:in_app) == [1] }
    running.server.stop
    assert eventually { @slot.state == :draining }
    assert beats?
    gate << true
    assert_equal 200, client.read.status
  end

  # Reads a byte as an extension would that keeps Ruby's lock meanwhile.
  READ = Fiddle::Function.new(Fiddle.dlopen(nil)["read"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T],
                              Fiddle::TYPE_SSIZE_T, need_gvl: true)

  # Reports a request that is left over for so long that a heartbeat comes meanwhile.
  class SlowReport < Abaca::Log
    def abandoned(*) = sleep(1.5)
  end

  # The server has let go of its poller by then, and not of its slot.
  def test_a_server_whose_thread_is_killed_beats_to_the_end
    @children << fork { kill_with_a_request && exit!(0) }
    assert_equal 0, Process.wait2(@children.pop).last.exitstatus
  end

  def kill_with_a_request
    begun = Queue.new
    server = Abaca::Server.new(->(_env) { begun << true and sleep }, slot: @slot.claim, log: SlowReport.new($stderr))
    port = server.add_tcp_listener("127.0.0.1", 0, defer_accept: false)
    thread = Thread.new { server.run }
    client = Wire::Client.new(port).write(GET)
    begun.pop
    thread.kill.join
    client.close
    true
  end

  # Ruby does not run. Beside a loop the engine turns all the same when something comes; a thread that leads may be on
  # its way to Ruby.
  def test_ruby_hangs
    %w[fiber thread].each do |mode|
      gate, key = IO.pipe
      gate.nonblock = false
      port, pid = worker(lambda { |env|
        nil while env["PATH_INFO"] == "/hang" && READ.call(gate.fileno, +" ", 1).negative?
        HELLO.call(env)
      }, mode: mode, liveness: "/livez", stall_report: 0)
      client = Wire::Client.new(port).tap { |one| @clients << one }.write(request("GET", "/hang"))
      assert eventually { @slot.beat_age.to_f > 1.5 }, mode
      if mode == "fiber"
        assert_equal 200, send_to(port, 1, "/livez").first.status
        assert_operator @slot.turn_age, :<, @slot.beat_age
      end
      key.write("!")
      assert_equal 200, client.read.status
      assert eventually { @slot.beat_age < 1 }, mode
      reap(pid)
      [gate, key].each(&:close)
    end
  end

  # A process that is stopped says nothing, and can be looked at.
  def test_a_process_that_is_stopped
    port, pid = worker(HELLO)
    send_to(port, 4)
    Process.kill(:STOP, pid)
    assert eventually { @slot.beat_age > 1.5 && @slot.turn_age > 1.5 }
    assert_equal [:serving, pid, 4], [@slot.state, @slot.pid, @slot.figures.fetch(:requests)]
    Process.kill(:CONT, pid)
    assert eventually { @slot.beat_age < 1 }
  end

  def test_sums_survive_workers_that_are_killed
    total = 0
    [5, 1, 7].each do |count|
      port, pid = worker(HELLO)
      send_to(port, count)
      reap(pid)
      total += count
      assert_equal [count, total], [@slot.figures, @page.sums].map { |all| all.fetch(:requests) }
      assert_equal 1, @page.sums.fetch(:connections) # until its parent says that it has ended
      @slot.state = :ended
      assert_equal [0, 0], [@slot.figures, @page.sums].map { |all| all.fetch(:connections) }
    end
    assert_equal 3, @page.sums.fetch(:accepted)
  end

  # Killed in the middle of requests: what it had answered was counted, and at most what was on its way besides.
  def test_sums_of_workers_that_are_killed_under_load
    answered = 0
    4.times do
      port, pid = worker(HELLO)
      counts = Array.new(2) do
        Thread.new { (1..).each { |count| Thread.current[:count] = count if send_on(port, count) } }
      end
      assert(eventually { counts.all? { |thread| thread[:count].to_i > 20 } })
      reap(pid)
      counts.each(&:join)
      answered += counts.sum { |thread| thread[:count] }
    end
    assert_includes answered..(answered + 8), @page.sums.fetch(:requests)
  end

  FORKS = lambda do |env|
    case env["PATH_INFO"]
    when "/returns" then (pid = fork) && Process.wait(pid)
    when "/raises"
      pid = fork
      raise "in the child" unless pid

      Process.wait(pid)
    when "/exits"
      pid = fork
      exit 7 unless pid
      Process.wait(pid)
    when "/block" then Process.wait(fork { GC.start })
    when "/takes"
      io = env["rack.hijack"].call
      (pid = fork) && Process.wait(pid)
      io.close
    end
    [200, { "content-type" => "text/plain" }, ["hello\n"]]
  end

  # A child of a request has all that its parent has, also the page: it must not count there.
  def test_an_app_that_forks
    %w[fiber thread].each do |mode|
      port, pid = worker(FORKS, mode: mode)
      %w[/returns /raises /exits /block].each { |path| assert_equal 200, send_to(port, 1, path).first.status, path }
      Wire::Client.new(port).tap { |one| @clients << one }.write(request("GET", "/takes")).drain
      expected = { requests: 5, accepted: 5, in_app: 0, detached: 1, connections: 4, taken_over: 0, errors: 0 }
      assert eventually { @slot.figures.slice(*expected.keys) == expected }, "#{mode} #{@slot.figures}"
      assert_equal [:serving, pid], [@slot.state, @slot.pid], mode
      reap(pid)
    end
  end

  def test_slots_that_no_server_can_have
    assert_raises(TypeError) { Abaca::Server.new(HELLO, slot: 0) }
    unclaimed = Abaca::Server.new(HELLO, slot: @slot, log: Abaca::Log.new(StringIO.new))
    assert_equal "slot 0 is empty: a server runs in the process that has claimed it",
                 assert_raises(Abaca::Error) { unclaimed.run }.message
    running = serve(slot: @slot.claim)
    ask(running)
    second = Abaca::Server.new(HELLO, slot: @slot, log: Abaca::Log.new(StringIO.new))
    assert_match(/another server runs in it/, assert_raises(Abaca::Error) { second.run }.message)
    assert_match(/a server runs in it/, assert_raises(Abaca::Error) { @slot.claim }.message)
    running.stop
    assert_same @slot, @slot.claim
  end

  # The server goes on, and nothing of the page is left when it has ended.
  def test_a_page_that_is_closed_while_a_server_runs
    running = serve(slot: @slot.claim)
    ask(running)
    @page.close
    assert_equal 200, ask(running).status
    running.stop
    assert_equal 2, running.server.stats.fetch(:requests)
    late = Abaca::Server.new(HELLO, slot: @slot, log: Abaca::Log.new(StringIO.new))
    assert_raises(IOError) { late.run }
  end

  private

  # One more request on the thread's connection; ends the thread when the worker is no more.
  def send_on(port, count)
    client = Thread.current[:client] ||= Wire::Client.new(port)
    return true if client.call(GET).status == 200

    raise "no answer to request #{count}"
  rescue SystemCallError, EOFError, Wire::Error
    client&.close
    Thread.exit
  end
end
