# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# Work that nobody waits for any more: the client has gone, or the request's time is over.
class FaultCancelTest < Minitest::Test
  include ServerCase

  LONG = 30 # seconds, longer than any wait here

  # --- request_timeout ---

  def test_a_request_that_takes_too_long_gets_504
    events = Queue.new
    running = serve(request_timeout: 1) do
      sleep LONG
    rescue Abaca::DeadlineExceeded => e
      events << e.message
      raise
    ensure
      events << :ensure
    end
    client = connect(running)
    response = client.call(GET)
    assert_equal [504, "504 Gateway Timeout\n", true], [response.status, response.body, response.close?]
    assert client.closed?
    assert_equal ["the request has taken longer than its request_timeout", :ensure], [events.pop, events.pop]
    assert running.logged?(%r{error in the app: Abaca::DeadlineExceeded: .* \(GET /\)})
    assert running.logged?(/cancel_test\.rb:\d+:in ['`](Kernel#)?sleep'/), "the log shows where it waited"
    assert_equal 1, running.server.stats[:expired]
  end

  def test_rescue_of_standard_errors_does_not_keep_it
    running = serve(request_timeout: 1) do
      sleep LONG
    rescue => e # rubocop:disable Style/RescueStandardError -- what is tested
      [200, TYPE.dup, ["rescued #{e.class}"]]
    end
    assert_equal 504, ask(running).status
  end

  # A lock that somebody beside the request holds until there is something in the queue.
  def self.held(release)
    taken = Queue.new
    mutex = Mutex.new
    ServerCase.beside do
      mutex.synchronize do
        taken << true
        release.pop
      end
    end
    taken.pop
    mutex
  end

  WAITS = {
    "queue" => ->(_release) { Queue.new.pop },
    "lock" => ->(release) { held(release).lock },
    "pipe" => ->(_release) { IO.pipe { |reader, _writer| reader.read(1) } },
    # A scheduler of one's own may make nothing of a fiber that its fibers resume.
    **(MODE.empty? ? { "fiber" => ->(_release) { Fiber.new(blocking: false) { sleep LONG }.resume } } : {})
  }.freeze

  def test_every_wait_ends
    release = Queue.new
    running = serve(request_timeout: 1) do |env|
      WAITS.fetch(env["PATH_INFO"].delete_prefix("/")).call(release)
      [200, TYPE.dup, ["done"]]
    end
    clients = WAITS.keys.map { |name| connect(running).write(request("GET", "/#{name}")) }
    assert_equal(WAITS.transform_values { 504 }, WAITS.keys.zip(clients.map { |client| client.read.status }).to_h)
  ensure
    release << true
  end

  # The app's own exception on the way out does not change why the request ends, and is logged. On Ruby 3.1 a
  # ConditionVariable has lost its lock then, and `synchronize` raises.
  def test_an_exception_in_place_of_it_does_not_change_the_answer
    running = serve(request_timeout: 1) do |env|
      if env["PATH_INFO"] == "/condition"
        lock = Mutex.new
        lock.synchronize { ConditionVariable.new.wait(lock) }
      else
        begin
          sleep LONG
        rescue Abaca::DeadlineExceeded
          raise "the search was broken off"
        end
      end
    end
    clients = %w[/condition /search].map { |path| connect(running).write(request("GET", path)) }
    responses = clients.map(&:read)
    assert_equal [[504, true]] * 2, responses.map { |response| [response.status, response.close?] }
    assert running.logged?(/RuntimeError: the search was broken off/)
  end

  def test_a_response_that_had_begun_breaks_off
    closed = Queue.new
    body = Class.new do
      define_method(:each) do |&block|
        block.call("part")
        sleep LONG
      end
      define_method(:close) { closed << true }
    end
    client = connect(serve(request_timeout: 1) { [200, TYPE.dup, body.new] })
    client.write(GET)
    bytes = client.drain
    assert_includes bytes, "4\r\npart\r\n"
    refute_includes bytes, "0\r\n\r\n"
    assert closed.pop
  end

  def test_a_request_in_time_is_left_alone
    running = serve(request_timeout: 20) do
      sleep 0.01
      [200, TYPE.dup, ["in time"]]
    end
    client = connect(running)
    3.times { assert_equal "in time", client.call(GET).body }
    assert_equal 0, running.server.stats[:expired]
  end

  # A listener's timeout is for the usual request; the app knows which one is not.
  def test_the_app_may_give_a_request_more_or_less_time
    running = serve(request_timeout: 2, lint: false) do |env|
      env["abaca.client"].request_timeout = { "/stream" => nil, "/long" => 60, "/short" => 0.1 }[env["PATH_INFO"]]
      sleep 2.6
      [200, TYPE.dup, ["done"]]
    end
    clients = %w[/stream /long /short].map { |path| connect(running).write(request("GET", path)) }
    assert_equal [200, 200, 504], clients.map { |client| client.read.status }
    assert_equal 1, running.server.stats[:expired]
  end

  def test_a_request_may_have_a_time_where_none_is_set
    running = serve(lint: false) do |env|
      env["abaca.client"].request_timeout = 0.2
      sleep LONG
    end
    assert_equal 504, ask(running).status
  end

  def test_what_is_no_time
    refused = Queue.new
    running = serve(lint: false) do |env|
      [0, -1, Float::NAN, "soon"].each do |value|
        env["abaca.client"].request_timeout = value
      rescue ArgumentError, TypeError => e
        refused << e.class
      end
      env["abaca.client"].request_timeout = Float::INFINITY
      [200, TYPE.dup, ["x"]]
    end
    assert_equal 200, ask(running).status
    assert_equal 4, refused.size
  end

  # What an extension has in hand does not end in the middle: the next wait does, if there is one.
  def test_a_blocking_operation_is_not_interrupted
    skip "only Abaca's own scheduler waits for operations" unless MODE.empty?

    running = serve(request_timeout: 1) do |env|
      scheduler = Fiber.scheduler
      fiber = Fiber.current
      Thread.new { sleep(1.5) && scheduler.unblock(:job, fiber) }
      scheduler.send(:await_operation, :job)
      sleep LONG if env["PATH_INFO"] == "/wait"
      [200, TYPE.dup, ["done"]]
    end
    assert_equal 504, ask(running, request("GET", "/wait")).status
    assert_equal 200, ask(running, request("GET", "/end")).status
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    nothing_for(0.5)
    spent = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
    assert_operator spent, :<, 0.1, "the loop still looks for them"
  end

  # Once is enough: the app goes on, and the log knows.
  def test_an_app_that_swallows_it_is_recorded_and_not_hit_again
    running = serve(request_timeout: 1) do
      begin
        sleep LONG
      rescue Abaca::Cancelled
        sleep 1.4
      end
      [200, TYPE.dup, ["stubborn"]]
    end
    assert_equal "stubborn", ask(running).body
    assert running.logged?(%r{the app went on after Abaca::DeadlineExceeded \(GET /\)})
  end

  def test_the_fiber_serves_the_next_request
    running = serve(request_timeout: 1, **ServerCase.at_once(1)) do |env|
      sleep LONG if env["PATH_INFO"] == "/slow"
      [200, TYPE.dup, ["quick"]]
    end
    slow = connect(running).write(request("GET", "/slow"))
    assert_equal 504, slow.read.status
    3.times { assert_equal "quick", ask(running).body }
  end

  # It waits in the engine's queue, while the only fiber is the first one's.
  def test_a_request_that_gets_no_fiber_in_time_is_answered_503
    gate = Queue.new
    running = serve(request_timeout: 1, **ServerCase.at_once(1)) do
      begin
        sleep LONG
      rescue Abaca::DeadlineExceeded
        gate.pop
      end
      [200, TYPE.dup, ["late"]]
    end
    waiting = connect(running).write("GET / HT")
    first = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    waiting.write("TP/1.1\r\nHost: a.test\r\n\r\n")
    assert_equal 503, waiting.read.status
    gate << true
    assert_equal "late", first.read.body
  end

  # The worst of all deadlines: somebody kills the server's thread, in the middle of the app.
  def test_the_thread_is_killed_while_the_app_computes
    # The kill takes the root fiber alone before Ruby 3.4, and Async waits for the engine's for ever.
    skip "Async cannot end a killed thread on Ruby #{RUBY_VERSION}" if async? && RUBY_VERSION < "3.4"

    begun = Queue.new
    ended = Queue.new
    running = serve do
      begun << true
      loop { Thread.pass }
    ensure
      ended << true
    end
    client = connect(running).write(GET)
    begun.pop
    running.thread.kill
    # A foreign scheduler runs once more, with the time that fibers get after a halt, and if it hears nothing then,
    # for ever.
    assert running.thread.join(40)
    assert ended.pop
    refute_includes client.drain, "200 OK"
  end

  # --- the client goes ---

  def test_an_app_that_asks_sees_that_its_client_was_reset
    asked = Queue.new
    running = serve(lint: false) do |env|
      client = env["abaca.client"]
      asked << client.gone?
      asked << eventually { client.gone? }
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running).write(GET)
    refute asked.pop
    client.reset
    assert asked.pop
    assert_quiet(running)
  end

  # A fiber that only computes gives the engine no turn.
  def test_an_app_that_computes_can_ask_too
    asked = Queue.new
    begun = Queue.new
    running = serve(lint: false) do |env|
      begun << true
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
      Thread.pass until (gone = env["abaca.client"].gone?) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      asked << gone
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running).write(GET)
    begun.pop
    client.reset
    assert asked.pop
  end

  def test_an_app_that_wants_to_be_told_is_told_once
    told = Queue.new
    gate = Queue.new
    running = serve(lint: false) do |env|
      env["abaca.client"].on_gone { told << [:first, ServerCase.threads? || !Fiber.current.blocking?] }
      env["abaca.client"].on_gone { raise "in a block" }
      env["abaca.client"].on_gone do
        sleep 0.01
        told << :second
      end
      told << :ready
      gate.pop
      env["abaca.client"].on_gone { told << :at_once }
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running).write(GET)
    assert_equal :ready, told.pop
    client.reset
    assert_equal [[:first, true], :second], Array.new(2) { told.pop }
    gate << true
    assert_equal :at_once, told.pop
    assert running.logged?(/error in the app: RuntimeError: in a block/)
    running.stop
    assert_empty told
  end

  def test_nobody_is_told_when_the_response_was_taken
    told = Queue.new
    running = serve(lint: false) do |env|
      env["abaca.client"].on_gone { told << true }
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running)
    assert_equal "x", client.call(GET).body
    client.reset
    assert eventually { running.server.stats[:connections].zero? }
    running.stop
    assert_empty told
  end

  # The write that fails is where it shows.
  def test_a_stream_that_is_broken_off_tells
    told = Queue.new
    body = Enumerator.new { |y| 10_000.times { y << ("x" * 10_000) } }
    running = serve(lint: false) do |env|
      env["abaca.client"].on_gone { told << true }
      [200, TYPE.dup, body]
    end
    client = connect(running).write(GET)
    client.read_some(100)
    client.reset
    assert told.pop
    assert_quiet(running)
  end

  def test_cancel_on_disconnect
    ended = Queue.new
    running = serve(cancel_on_disconnect: true) do
      ended << :begun
      sleep LONG
    rescue Exception => e # rubocop:disable Lint/RescueException -- what is tested
      ended << e.class
      raise
    end
    client = connect(running).write(GET)
    ended.pop
    client.reset
    assert_equal Abaca::ClientGone, ended.pop
    assert eventually { running.server.stats[:in_app].zero? }
    assert_quiet(running)
  end

  def test_cancel_on_disconnect_behind_a_pipelined_request
    ended = Queue.new
    running = serve(cancel_on_disconnect: true) do |env|
      ended << env["PATH_INFO"]
      sleep LONG
    ensure
      ended << :ended
    end
    client = connect(running).write(request("GET", "/1") + request("GET", "/2"))
    assert_equal "/1", ended.pop
    client.reset
    assert_equal :ended, ended.pop
    assert eventually { running.server.stats[:in_app].zero? }
    assert_empty ended, "the second request was served for nobody"
  end

  def test_rack_response_finished_gets_what_ended_it
    finished = Queue.new
    running = serve(cancel_on_disconnect: true, lint: false) do |env|
      env["rack.response_finished"] << ->(_env, status, _headers, error) { finished << [status, error.class] }
      finished << :begun
      sleep LONG
    end
    client = connect(running).write(GET)
    finished.pop
    client.reset
    assert_equal [nil, Abaca::ClientGone], finished.pop
  end

  # RFC 9112 9.6: whoever ends its side may be waiting for the response all the same. So it is asked.
  def test_a_half_close_is_not_gone
    seen = Queue.new
    gate = Queue.new
    running = serve(cancel_on_disconnect: true, lint: false) do |env|
      gate.pop
      seen << env["abaca.client"].gone?
      [200, TYPE.dup, ["answered"]]
    end
    client = connect(running).write(GET)
    client.half_close
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", client.read_some
    gate << true
    assert_match(%r{\AHTTP/1.1 200 OK\r\n.*answered\z}m, client.drain)
    refute seen.pop
  end

  def test_a_half_close_that_nobody_wants_to_know_of_is_not_asked
    [{}, { cancel_on_disconnect: true, half_close: :answer }].each do |settings|
      running = serve(**settings) do
        sleep 0.2
        [200, TYPE.dup, ["answered"]]
      end
      client = connect(running).write(GET)
      client.half_close
      assert_match(%r{\AHTTP/1.1 200 OK\r\n.*answered\z}m, client.drain)
    end
  end

  # HTTP/1.0 has no interim responses (RFC 9110 15.2).
  def test_an_old_client_is_not_asked
    running = serve(cancel_on_disconnect: true) do
      sleep 0.2
      [200, TYPE.dup, ["answered"]]
    end
    client = connect(running).write("GET / HTTP/1.0\r\n\r\n")
    client.half_close
    assert_match(%r{\AHTTP/1.1 200 OK\r\n.*answered\z}m, client.drain)
  end

  # A plain close, with the request or while the app works on it. On a thread the first one may be known before the
  # app has begun, and then it never does.
  def test_a_closed_client_is_gone
    seen = Queue.new
    running = serve(cancel_on_disconnect: true) do
      seen << :begun
      sleep LONG
    rescue Exception => e # rubocop:disable Lint/RescueException -- ClientGone is no StandardError
      seen << e.class
      raise
    end
    [true, false].each.with_index(1) do |at_once, nth|
      client = connect(running).write(GET)
      assert(eventually { seen.size == 1 }) unless at_once
      client.close
      over = [nth, 0, 0, 0]
      assert(eventually { running.server.stats.values_at(:accepted, :connections, :in_app, :waiting) == over })
      events = Array.new(seen.size) { seen.pop }
      # The thread may be told before its first line, or not be asked at all.
      early = at_once && ServerCase.threads? ? [[], [Abaca::ClientGone]] : []
      assert_includes [[:begun, Abaca::ClientGone], *early], events
    end
    assert_quiet(running)
  end

  def test_on_gone_hears_of_a_plain_close
    told = Queue.new
    gate = Queue.new
    running = serve(lint: false) do |env|
      env["abaca.client"].on_gone { told << :gone }
      told << :begun
      gate.pop
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running).write(GET)
    assert_equal :begun, told.pop
    client.close
    assert_equal :gone, told.pop
    gate << true
  end

  def test_a_half_close_is_gone_when_the_user_says_so
    ended = Queue.new
    running = serve(cancel_on_disconnect: true, half_close: :gone) do
      ended << :begun
      sleep LONG
    ensure
      ended << :ended
    end
    client = connect(running).write(GET)
    ended.pop
    client.close
    assert_equal :ended, ended.pop
    assert eventually { running.server.stats[:connections].zero? }
    assert_quiet(running)
  end

  # Nobody calls the app for it.
  def test_a_half_close_that_comes_with_the_request_is_gone_too
    called = Queue.new
    running = serve(half_close: :gone) do
      called << true
      [200, TYPE.dup, ["x"]]
    end
    [false, true].each do |begun|
      assert(eventually { half_closed_with_the_request(running, begun: begun, called: called) })
    end
    assert_empty called
    assert_equal 200, ask(running).status
  end

  CORKED = 0.2 # seconds for which the kernel holds back what is corked

  # Whether request and half-close have left in one segment; then nothing is answered. Who was too slow for that has
  # sent a request and later a half-close, which is answered.
  def half_closed_with_the_request(running, begun:, called:)
    client = connect(running)
    client.write("GET /") && caught_up(running) if begun
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    client.socket.setsockopt(:TCP, Socket::TCP_CORK, 1)
    client.write(begun ? GET.delete_prefix("GET /") : GET).half_close
    together = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started < CORKED
    answer = client.drain
    return assert_empty(answer) if together

    called.clear
    false
  end

  def test_the_handle_after_the_request
    handles = Queue.new
    running = serve(lint: false) do |env|
      handles << env["abaca.client"]
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running)
    client.call(GET)
    handle = handles.pop
    assert eventually { handle.gone? }
    assert_raises(IOError) { handle.on_gone { nil } }
    assert_raises(LocalJumpError) { handle.on_gone }
  end

  private

  def async? = ENV["ABACA_TEST_MODE"].to_s.include?("Async")

  def assert_quiet(running)
    refute_match(/error|warning/i, running.log)
  end
end
