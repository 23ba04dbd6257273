# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# env["abaca.deadline"], and requests that do not end by the exception that they get.
class FaultDeadlineTest < Minitest::Test
  include ServerCase

  LONG = 30 # seconds, longer than any wait here
  GRACE = 5 # seconds that a cancelled request gets to end

  def setup
    super
    @told = Queue.new
  end

  def answer(text = "done") = [200, TYPE.dup, [text.to_s]]

  # --- remaining ---

  def test_how_much_time_is_left
    running = serve(request_timeout: 60, request_timeouts: { "/free" => 0 }) do |env|
      @told << env["abaca.deadline"].remaining
      sleep 0.2
      @told << env["abaca.deadline"].remaining
      answer
    end
    ask(running)
    first, second = Array.new(2) { @told.pop }
    assert_includes 30.0..60.0, first
    assert_includes 0.19..20.0, first - second
    ask(running, request("GET", "/free"))
    assert_equal [nil, nil], Array.new(2) { @told.pop }
  end

  def test_nothing_is_left_once_it_has_passed
    running = serve(lint: false) do |env|
      env["abaca.client"].request_timeout = 0.2
      sleep LONG
    ensure
      @told << env["abaca.deadline"].remaining
    end
    assert_equal 504, ask(running).status
    assert_in_delta 0.0, @told.pop
  end

  def test_after_the_request_there_is_no_answer
    running = serve do |env|
      @told << env["abaca.deadline"]
      answer
    end
    ask(running)
    deadline = @told.pop
    assert eventually { running.server.stats[:in_app].zero? }
    assert_raises(IOError) { deadline.remaining }
    assert_raises(IOError) { deadline.add_time(1) }
    assert_raises(IOError) { deadline.on_cancel { nil } }
  end

  # --- add_time ---

  def test_a_request_may_get_more_time
    running = serve(request_timeout: 2) do |env|
      @told << env["abaca.deadline"].add_time(50) if env["PATH_INFO"] == "/more"
      sleep 2.6
      answer
    end
    clients = %w[/more /less].map { |path| connect(running).write(request("GET", path)) }
    assert_equal [200, 504], clients.map { |client| client.read.status }
    assert_includes 50.0..52.0, @told.pop
  end

  def test_without_a_limit_there_is_no_time_to_add_to
    running = serve do |env|
      @told << env["abaca.deadline"].add_time(5)
      answer
    end
    ask(running)
    assert_nil @told.pop
  end

  # Whoever cleans up after the exception may take the time that it needs.
  def test_more_time_after_the_end
    running = serve(lint: false) do |env|
      env["abaca.client"].request_timeout = 0.1
      sleep LONG
    rescue Abaca::DeadlineExceeded
      @told << env["abaca.deadline"].add_time(60)
      sleep 0.2
      answer("cleaned up")
    end
    assert_equal "cleaned up", ask(running).body
    assert_includes 30.0..60.0, @told.pop
    assert_equal 1, swallowed(running)
  end

  def test_what_cannot_be_added
    running = serve do |env|
      [0, -1, Float::NAN, "1", nil].each do |value|
        env["abaca.deadline"].add_time(value)
      rescue ArgumentError, TypeError => e
        @told << e.class
      end
      answer
    end
    assert_equal 200, ask(running).status
    assert_equal 5, @told.size
  end

  # It is the client's handle, which is an object like any other.
  def test_a_module_extends_it_all_the_same
    running = serve do |env|
      env["abaca.deadline"].extend(Module.new { def hello = "hello" })
      answer(env["abaca.client"].hello)
    end
    assert_equal "hello", ask(running).body
  end

  # --- on_cancel ---

  def test_who_wants_to_be_told_is_told_first
    running = serve(request_timeout: 1) do |env|
      env["abaca.deadline"].on_cancel { |exception| @told << exception.class }
      env["abaca.deadline"].on_cancel { @told << :second }
      env["PATH_INFO"] == "/quick" ? answer : sleep(LONG)
    ensure
      @told << :ensure
    end
    ask(running, request("GET", "/quick"))
    assert_equal 504, ask(running).status
    assert_equal [:ensure, Abaca::DeadlineExceeded, :second, :ensure], Array.new(4) { @told.pop }
    assert_empty @told
  end

  # The exception has to wait for the end of what cannot be interrupted; whoever can end that is told.
  def test_who_cannot_be_interrupted_can_be_told
    skip "only Abaca's own scheduler waits for operations" unless MODE.empty?

    running = serve(request_timeout: 1) do |env|
      scheduler = Fiber.scheduler
      fiber = Fiber.current
      env["abaca.deadline"].on_cancel { scheduler.unblock(:job, fiber) }
      scheduler.send(:await_operation, :job)
      answer("ended early")
    end
    assert_equal "ended early", ask(running).body
  end

  # An exception that cannot be made, as often as the test has put something into the queue.
  module Unmade
    FAILURES = Queue.new

    def initialize(*)
      FAILURES.empty? ? super : raise(FAILURES.pop)
    end
  end
  Abaca::DeadlineExceeded.prepend(Unmade)

  # Somebody's Thread#raise may hit the server where it is about to cancel: the request's time is over all the same.
  def test_an_exception_that_comes_between_changes_nothing
    running = serve(lint: false, request_timeout: 1) { sleep LONG }
    Unmade::FAILURES << "between"
    assert_equal 504, ask(running).status
    assert_empty Unmade::FAILURES
  end

  def test_a_client_that_goes_cancels_too
    running = serve(cancel_on_disconnect: true) do |env|
      env["abaca.deadline"].on_cancel { |exception| @told << exception.class }
      @told << :began
      sleep LONG
    end
    client = connect(running).write(GET)
    assert_equal :began, @told.pop
    client.reset
    assert_equal Abaca::ClientGone, @told.pop
  end

  def test_the_shutdown_cancels_too
    running = serve do |env|
      env["abaca.deadline"].on_cancel { |exception| @told << exception.class }
      @told << :began
      sleep LONG
    end
    client = connect(running).write(GET)
    assert_equal :began, @told.pop
    running.halt
    assert_equal Abaca::Shutdown, @told.pop
    assert_equal 503, client.read.status
  end

  def test_who_asks_later_is_told_at_once
    running = serve(request_timeout: 1) do |env|
      sleep LONG
    ensure
      env["abaca.deadline"].on_cancel { |exception| @told << exception.class }
    end
    ask(running)
    assert_equal Abaca::DeadlineExceeded, @told.pop
  end

  def test_what_is_raised_there_is_logged
    running = serve(request_timeout: 1) do |env|
      env["abaca.deadline"].on_cancel { raise "no more" }
      sleep LONG
    end
    assert_equal 504, ask(running).status
    assert running.logged?(/error in the app: RuntimeError: no more/)
  end

  # --- the end of patience ---

  def test_who_does_not_end_is_waited_for_no_longer
    gate = Queue.new
    running = serve(lint: false) do |env|
      env["abaca.client"].on_gone { @told << :gone }
      env["abaca.client"].request_timeout = 0.1
      begin
        sleep LONG
      rescue Abaca::Cancelled
        gate.pop
      end
      answer("late")
    end
    client = connect(running, timeout: 4 * GRACE).write(GET)
    response = client.read
    assert_equal [504, true], [response.status, response.close?]
    assert client.closed?
    assert running.logged?(%r{a request is given up that did not end in \d\.\d s \(GET /\)})
    assert_equal [1, 0], [mode(running)[:abandoned], swallowed(running)]
    gate << true
    assert eventually { running.server.stats[:in_app].zero? }
    assert_empty @told, "the client has not gone: it was left"
    assert_equal 1, mode(running)[:cancelled]
  end

  # 100 clients leave; a bench has the time that it takes.
  def test_a_hundred_clients_leave
    running = serve(cancel_on_disconnect: true) do
      @told << :began
      sleep LONG
    ensure
      @told << :ensure
    end
    clients = Array.new(100) { connect(running).write(GET) }
    assert_equal [:began] * 100, Array.new(100) { @told.pop }
    clients.each(&:close)
    assert_equal [:ensure] * 100, Array.new(100) { @told.pop }
    assert eventually { running.server.stats[:in_app].zero? }
    assert_equal 100, mode(running)[:cancelled]
  end

  private

  def mode(running) = running.server.stats.dig(:modes, ServerCase.first_mode)
  def swallowed(running) = mode(running)[:swallowed]
end
