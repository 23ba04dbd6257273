# frozen_string_literal: true

# also: modes portable rubies

require "test_helper"
require "support/server_case"
require "rack/timeout/base"

# rack-timeout with requests at the same time: the one that takes too long fails, and no other.
class RackTimeoutTest < Minitest::Test
  include ServerCase

  TIMED_OUT = /error in the app: Rack::Timeout::RequestTimeoutError: Request ran for longer than 300ms/

  def setup
    super
    @gate = Queue.new
    Rack::Timeout::Scheduler.run_in(0) { nil } # its thread comes with the first request, and stays
    @before[:threads] = Thread.list
  end

  # Serves the block with the gem around it.
  def serve_timed(**timeouts, &app)
    serve(Rack::Timeout.new(app, service_timeout: 0.3, **timeouts), lint: false)
  end

  # Others come and go on that thread while the slow one waits, and when its time is over.
  def test_of_two_requests_at_once_the_slow_one_fails
    running = serve_timed do |env|
      env["PATH_INFO"] == "/slow" ? sleep : sleep(0.005)
      [200, TYPE.dup, ["in order"]]
    end
    slow = connect(running).write(request("GET", "/slow"))
    other = connect(running)
    statuses = []
    statuses << other.call(GET).status while slow.silent?(0)
    assert_equal 500, slow.read.status
    assert_equal [200], statuses.uniq
    assert running.logged?(TIMED_OUT)
    assert_equal 200, ask(running).status
  end

  # The gem's exception can be rescued where it comes, and what follows is an ordinary response.
  def test_an_app_may_rescue_it
    running = serve_timed do
      sleep
    rescue Rack::Timeout::RequestTimeoutException => e
      [503, TYPE.dup, [e.message]]
    end
    response = ask(running)
    assert_equal [503, "Request ran for longer than 300ms "], [response.status, response.body]
  end

  # The gem's thread may be about to raise when the block ends.
  def test_an_exception_that_comes_after_the_block_is_dropped
    Abaca::Compat::RackTimeouts.adapt(Abaca::Config.new({}), nil)
    targets = Queue.new
    timeout = Rack::Timeout::Scheduler::Timeout.new { |target| targets << target }
    ended = nil
    Thread.new do
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule do
        target = timeout.timeout(0.001) { targets.pop }
        over = Queue.new
        Fiber.schedule do
          sleep 0 # the other one waits by then
          target.raise(RuntimeError, "too late")
          over << :unharmed
        end
        ended = over.pop
      end
    end.join
    assert_equal :unharmed, ended
  end

  # What has not reached the request before it was done does not reach the next one on that fiber.
  def test_a_request_that_ends_by_itself_is_none_of_its_business
    running = serve_timed(service_timeout: 0.02) do |env|
      if env["PATH_INFO"] == "/computes" && !ServerCase.threads?
        limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.1
        Thread.pass until Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      end
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running)
    assert_equal 200, client.call(request("GET", "/computes")).status
    assert_equal [200] * 5, Array.new(5) { client.call(GET).status }
  end

  def test_a_request_that_is_too_old_is_dropped
    running = serve_timed(wait_timeout: 5) { [200, TYPE.dup, ["x"]] }
    old = ((Time.now.to_f - 60) * 1000).to_i.to_s
    assert_equal 500, ask(running, request("GET", "/", "X-Request-Start" => old)).status
    assert running.logged?(/Rack::Timeout::RequestExpiryError/)
    assert_equal 200, ask(running).status
  end

  # Waits that are not the scheduler's sleep: a lock, a queue, a socket, the request's body.
  def test_wherever_it_waits
    held = Mutex.new
    holder = Thread.new { held.synchronize { @gate.pop } }
    assert eventually { held.locked? }
    running = serve_timed do |env|
      case env["PATH_INFO"]
      when "/lock" then held.synchronize { nil }
      when "/queue" then Queue.new.pop
      when "/pipe" then IO.pipe.first.read
      end
      [200, TYPE.dup, ["x"]]
    end
    clients = %w[/lock /queue /pipe].map { |path| connect(running).write(request("GET", path)) }
    assert_equal [500] * 3, clients.map { |client| client.read.status }
  ensure
    @gate << true
    holder.join
  end
end
