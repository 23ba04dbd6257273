# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "abaca/fiber_pool"
require "support/scheduler_case"
require "support/server_case"

# A wake-up is kept for a fiber that has not parked yet. On a pooled fiber it is the job's that runs when it comes:
# the next one has no part in it, whoever was late.
class WakeUpTest < Minitest::Test
  include SchedulerCase

  # Whom wake-ups are sent by: Ruby's own classes, and code that calls the hooks itself.
  BLOCKERS = [:any, Queue.new, SizedQueue.new(1), Mutex.new, ConditionVariable.new, Thread.current].freeze

  # Returns those of the blockers whose wake-up the current fiber has been kept.
  def self.kept = BLOCKERS.select { |blocker| Fiber.scheduler.block(blocker, 0.0001) }

  def self.wake(fiber, scheduler = Fiber.scheduler)
    BLOCKERS.each { |blocker| scheduler.unblock(blocker, fiber) }
  end

  ENDS = {
    returns: -> {},
    raises: -> { raise "of a job" },
    throws: -> { throw :nowhere },
    waits: -> { sleep 0.001 },
    waits_and_raises: -> { sleep(0.001) && raise("of a job") },
    exits: -> { exit },
    is_killed: -> { Fiber.current.kill if Fiber.method_defined?(:kill) }
  }.freeze

  def with_pool(**options)
    with_scheduler do
      Thread.current.report_on_exception = false
      yield Abaca::FiberPool.new(max: 1, **options)
    end
  end

  # Runs a job, whatever it ends with, to its end.
  def run_to_end(pool, &)
    pool.run(&)
    Fiber.scheduler.run
  rescue SystemExit
    retry if pool.stats[:busy].positive?
  end

  ENDS.each do |name, ending|
    define_method(:"test_a_job_that_#{name}_leaves_none") do
      with_pool do |pool|
        run_to_end(pool) do
          self.class.wake(Fiber.current)
          ending.call
        end
        assert_empty pool.run { self.class.kept }.value
      end
    end
  end

  # It would be seen if it were not for the end of the job.
  def test_it_is_kept_within_a_job
    with_pool do |pool|
      kept = pool.run do
        self.class.wake(Fiber.current)
        self.class.kept
      end
      assert_equal BLOCKERS, kept.value
    end
  end

  # By code that has remembered the fiber of a job which is over.
  def test_one_for_an_idle_fiber_is_dropped
    with_pool do |pool|
      fiber = pool.run { Fiber.current }.value
      self.class.wake(fiber)
      assert_empty pool.run { self.class.kept }.value
      assert_equal 1, pool.stats[:created]
    end
  end

  def test_one_of_a_thread_for_an_idle_fiber_is_dropped
    with_pool do |pool|
      fiber = pool.run { Fiber.current }.value
      scheduler = Fiber.scheduler
      Thread.new { self.class.wake(fiber, scheduler) }.join
      assert_empty pool.run { self.class.kept }.value
    end
  end

  # The fiber takes the next job off the queue without a turn of the loop between the two.
  def test_the_next_job_on_the_queue_has_none
    with_pool do |pool|
      tickets = Array.new(10) do
        pool.run do
          kept = self.class.kept
          self.class.wake(Fiber.current)
          kept
        end
      end
      assert_empty tickets.flat_map(&:value)
      assert_equal 1, pool.stats[:created]
    end
  end

  def test_a_fiber_that_goes_to_another_scheduler_has_none
    thread = Thread.new do
      pool = Abaca::FiberPool.new(max: 1)
      fiber = nil
      Array.new(2) do
        Fiber.set_scheduler(scheduler = Abaca::Scheduler.new)
        self.class.wake(fiber) if fiber
        kept = pool.run { (fiber = Fiber.current) && self.class.kept }.value
        self.class.wake(fiber)
        scheduler.close
        kept
      end
    end
    assert thread.join(DEADLINE), "it ends in time"
    assert_equal [[], []], thread.value
  end

  # Jobs that are woken in the middle of their hooks, in time and late, on fibers that run thousands of them.
  def test_many_jobs
    random = Random.new(1)
    woken = 0
    kept = 0
    fibers = {}
    with_scheduler do |scheduler|
      pool = Abaca::FiberPool.new(max: 8)
      600.times do
        Array.new(20) do
          pool.run do
            kept += 1 if scheduler.block(:any, 0.0001)
            fibers[Fiber.current] = true
            woken += 1 if meet(scheduler, random.rand(5))
          end
        end
        scheduler.run
        fibers.each_key { |fiber| self.class.wake(fiber) if random.rand(3).zero? }
      end
    end
    assert_equal 0, kept
    assert_operator fibers.size, :<=, 8
    assert_operator woken, :>, 1000
  end

  # Returns true when the current fiber has been woken.
  def meet(scheduler, way)
    fiber = Fiber.current
    case way
    when 0 then scheduler.unblock(:any, fiber).nil? && scheduler.block(:any, 10)
    when 1 then (queue = Queue.new) && Fiber.schedule { queue << true } && queue.pop
    when 2 then Thread.new { scheduler.unblock(:any, fiber) }.join && false
    when 3 then Fiber.schedule { self.class.wake(fiber) } && false
    else self.class.wake(fiber) && false
    end
  end
end

# The same for requests, of which one fiber serves one after the other.
class WakeUpOfRequestTest < Minitest::Test
  include ServerCase

  def app
    lambda do |env|
      kept = WakeUpTest.kept.size
      @scheduler = Fiber.scheduler
      (@fibers ||= []) << Fiber.current
      @scheduler.unblock(:any, Fiber.current)
      wake(env["PATH_INFO"].delete_prefix("/"))
      [200, {}, [kept.to_s]]
    end
  end

  def wake(whence)
    fiber = Fiber.current
    case whence
    when "request" then WakeUpTest.wake(fiber)
    when "fiber" then Fiber.schedule { WakeUpTest.wake(fiber, @scheduler) }
    when "thread" then Thread.new { WakeUpTest.wake(fiber, @scheduler) }.join
    end
  end

  def test_the_next_request_has_none
    needs_scheduler
    client = connect(serve(app))
    %w[request fiber thread idle].each do |whence|
      assert_equal "0", client.call(request("GET", "/#{whence}")).body, "the request before left it"
      WakeUpTest.wake(@fibers.last, @scheduler) if whence == "idle"
    end
    assert_equal "0", client.call(GET).body, "it came between two requests"
    assert_equal 1, @fibers.uniq.size
  end
end
