# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/scheduler_case"
require "support/pool_hooks"
require "abaca/fiber_pool"

PoolHooksBuild.load

class FiberPoolTest < Minitest::Test
  include SchedulerCase

  # Yields a pool and a starter of jobs, on the root fiber of a thread with a scheduler; then runs
  # the loop.
  def with_pool(**options)
    jobs = []
    value = error = nil
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(PoolHooks::Scheduler.new)
      pool = PoolHooks::FiberPool.new(**options)
      start = lambda do |&job|
        jobs << job
        PoolHooks.start(pool, job)
      end
      value = yield pool, start
      Fiber.scheduler.close
    rescue Exception => e # rubocop:disable Lint/RescueException
      error = e
    end
    assert thread.join(SchedulerCase::DEADLINE), "it ends in time"
    raise error if error

    value
  end

  def test_defaults_and_stats
    pool = Abaca::FiberPool.new
    assert_equal File.read("/proc/sys/vm/max_map_count").to_i / 5 * 2, pool.max
    reasons = { killed: 0, dirty: 0, jobs: 0, surplus: 0, idle: 0, trimmed: 0 }
    expected = { live: 0, idle: 0, busy: 0, waiting: 0, created: 0, reused: 0, retired: reasons,
                 stacks_trimmed: 0, high_water: 0, max: pool.max, paced_slots: 0 }
    assert_equal expected, pool.stats
  end

  def test_bad_options
    assert_raises(ArgumentError) { Abaca::FiberPool.new(max: 0) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(max: -1) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(max: 2**80) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(warm: -(2**80)) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(max: 2, warm: 3) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(idle: -1) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(size: 1) }
    assert_raises(ArgumentError) { Abaca::FiberPool.new(1) }
    assert_raises(TypeError) { Abaca::FiberPool.new(max: "many") }
    error = assert_raises(ArgumentError) { Abaca::FiberPool.new(max: 100_000_000) }
    assert_match(/vm.max_map_count/, error.message)
  end

  def test_warm_fibers_are_ready
    with_pool(warm: 5) do |pool, start|
      assert_equal({ live: 5, idle: 5, created: 5 }, pool.stats.slice(:live, :idle, :created))
      assert(start.call { sleep 0.001 })
      assert_equal({ live: 5, idle: 4, busy: 1, reused: 1 }, pool.stats.slice(:live, :idle, :busy, :reused))
    end
  end

  def test_a_fiber_runs_many_jobs
    fibers = []
    with_pool do |pool, start|
      5.times { start.call { fibers << Fiber.current } }
      assert_equal({ live: 1, created: 1, reused: 4, high_water: 1 },
                   pool.stats.slice(:live, :created, :reused, :high_water))
    end
    assert_equal 1, fibers.uniq.size
  end

  def test_jobs_are_non_blocking_and_wait_at_the_same_time
    took = seconds do
      with_pool do |pool, start|
        50.times { start.call { assert_equal(false, Fiber.current.blocking?) && sleep(1) } }
        assert_equal 50, PoolHooks.busy(pool)
      end
    end
    assert_operator took, :<, 19, "50 s of sleep, one after another"
  end

  def test_max_is_the_end
    with_pool(max: 2) do |pool, start|
      ran = 0
      results = Array.new(3) { start.call { sleep(0.005) && ran += 1 } }
      assert_equal [true, true, false], results
      refute PoolHooks.available?(pool)
      Fiber.scheduler.run
      assert_equal 2, ran
      assert PoolHooks.available?(pool)
    end
  end

  def test_idle_fibers_are_let_go
    with_pool(idle: 3) do |pool, start|
      10.times { start.call { sleep 0.001 } }
      Fiber.scheduler.run
      assert_equal({ live: 3, idle: 3, busy: 0, high_water: 10 },
                   pool.stats.slice(:live, :idle, :busy, :high_water))
      assert_equal 7, pool.stats[:retired][:surplus]
    end
  end

  def test_a_burst_keeps_its_fibers
    with_pool do |pool, start|
      2.times do
        3000.times { start.call { sleep 0.001 } }
        Fiber.scheduler.run
        assert_equal 3000, pool.stats[:idle]
      end
      assert_equal 3000, pool.stats[:created]
      assert_equal 0, pool.stats[:retired][:surplus]
    end
  end

  def test_nothing_is_left_for_the_next_job
    found = nil
    with_pool do |pool, start|
      start.call do
        Thread.current[:local] = 1
        Fiber[:storage] = 1 if Fiber.respond_to?(:[]=)
        Fiber.current.instance_variable_set(:@ivar, 1)
        begin
          raise "handled"
        rescue RuntimeError
          nil
        end
      end
      start.call do
        storage = Fiber.respond_to?(:[]) ? Fiber[:storage] : nil
        found = [Thread.current[:local], storage, Fiber.current.instance_variables, Thread.current.keys,
                 $!] # rubocop:disable Style/SpecialGlobalVars
      end
      assert_equal 1, pool.stats[:reused]
    end
    assert_equal [nil, nil, [], [], nil], found
  end

  def test_nothing_is_left_after_a_job_that_waited_and_failed
    found = nil
    with_pool do |_pool, start|
      capture_io_of_thread do
        start.call do
          Thread.current[:local] = 1
          sleep 0.001
          raise "of a job"
        end
        Fiber.scheduler.run
      end
      start.call { found = [Thread.current.keys, $!] } # rubocop:disable Style/SpecialGlobalVars
    end
    assert_equal [[], nil], found
  end

  # $stderr is written to by the pool's fiber.
  def capture_io_of_thread
    old = $stderr
    $stderr = StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = old
  end

  def test_an_exception_is_reported_and_the_fiber_goes_on
    with_pool do |pool, start|
      Thread.current.report_on_exception = true
      text = capture_io_of_thread { start.call { raise "of a job" } }
      assert_match(/of a job \(RuntimeError\)/, text)
      start.call { nil }
      assert_equal({ live: 1, reused: 1 }, pool.stats.slice(:live, :reused))
      assert_equal 0, pool.stats[:retired].values.sum
    end
  end

  def test_process_errors_reach_the_loop
    [SystemExit, Interrupt, NoMemoryError].each do |error|
      with_pool do |_pool, start|
        start.call { sleep(0.001) && raise(error) }
        assert_raises(error) { Fiber.scheduler.run }
        assert_raises(error) { start.call { raise error } }
      end
    end
  end

  def test_a_killed_fiber_is_replaced
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    with_pool do |pool, start|
      fiber = nil
      start.call { (fiber = Fiber.current) && sleep }
      fiber.kill
      refute_predicate fiber, :alive?
      assert_equal({ live: 0, busy: 0 }, pool.stats.slice(:live, :busy))
      assert_equal 1, pool.stats[:retired][:killed]
      assert(start.call { nil })
    end
  end

  def test_an_idle_fiber_is_immune_to_raise_and_transfer
    with_pool do |pool, start|
      fiber = ran = nil
      start.call { fiber = Fiber.current }
      Fiber.schedule { fiber.raise("late") }
      Fiber.schedule { fiber.transfer }
      Fiber.scheduler.run
      start.call { ran = Fiber.current }
      assert_same fiber, ran
      assert_equal({ live: 1, idle: 1, busy: 0 }, pool.stats.slice(:live, :idle, :busy))
    end
  end

  def test_further_jobs_run_on_the_same_fiber
    fibers = []
    locals = []
    with_pool do |pool, start|
      job = lambda do
        fibers << Fiber.current
        locals << Thread.current[:local]
        Thread.current[:local] = 1
      end
      further = [job, job]
      PoolHooks.next_jobs(pool, further)
      start.call(&job)
      assert_empty further
      assert_equal({ live: 1, created: 1, reused: 2 }, pool.stats.slice(:live, :created, :reused))
      PoolHooks.next_jobs(pool, nil)
    end
    assert_equal [3, 1], [fibers.size, fibers.uniq.size]
    assert_equal [nil, nil, nil], locals
  end

  def test_raise_between_jobs_strands_no_fiber
    order = []
    with_pool do |pool, start|
      victim = nil
      start.call do
        victim = Fiber.current
        sleep
      rescue KeyError
        order << :victim
      end
      start.call do
        victim.raise(KeyError, "x")
        order << :raiser
      end
      Fiber.scheduler.run
      assert_equal 0, PoolHooks.busy(pool)
    end
    assert_equal %i[raiser victim], order.sort
  end

  def test_the_pool_belongs_to_one_thread
    with_pool(warm: 1) do |pool, _start|
      other = Thread.new do
        Fiber.set_scheduler(PoolHooks::Scheduler.new)
        assert_raises(ThreadError) { PoolHooks.start(pool, -> {}) }
      end
      assert_match(/another thread/, other.value.message)
    end
  end

  # Under a small address space Ruby cannot map the stacks; the pool lives with what it has, and its
  # fibers still find their scheduler.
  def test_the_kernel_s_refusal_lowers_max_for_a_while
    status, out, err = run_ruby(<<~RUBY, within: 60)
      $VERBOSE = nil
      require "#{PoolHooksBuild.library}"
      Thread.new do
        Fiber.set_scheduler(PoolHooks::Scheduler.new)
        pool = PoolHooks::FiberPool.new(max: 9_000)
        size = File.read("/proc/self/statm").split.first.to_i * 4096
        Process.setrlimit(:AS, size + 200 * 1024 * 1024, Process::RLIM_INFINITY)
        jobs = []
        started = 0
        9_000.times do
          jobs << -> { sleep 0.01 }
          PoolHooks.start(pool, jobs.last) ? started += 1 : break
        end
        Fiber.scheduler.run
        puts started.between?(10, 8_000), pool.max == started, PoolHooks.busy(pool)
        again = []
        2.times { |i| PoolHooks.start(pool, jobs[i] = -> { sleep(0.01) && again << Fiber.current_scheduler.class }) }
        puts again.empty?
        Fiber.scheduler.run
        puts again
        Process.setrlimit(:AS, Process::RLIM_INFINITY)
        sleep 10
        more = Array.new(started + 10) { -> { sleep 0.01 } }
        puts more.all? { |job| PoolHooks.start(pool, job) }, pool.max
        Fiber.scheduler.run
      end.join
    RUBY
    assert_predicate status, :success?, err
    assert_equal %w[true true 0 true PoolHooks::Scheduler PoolHooks::Scheduler true 9000], out.split
  end

  # Fibers that have ended keep their stacks until they are collected, which this heap hardly needs.
  def test_the_dead_are_collected_before_the_kernel_refuses
    status, out, err = run_ruby(<<~RUBY, within: 60, env: LARGE_HEAP)
      $VERBOSE = nil
      require "support/memory_maps"
      require "#{PoolHooksBuild.library}"
      Thread.new do
        Fiber.set_scheduler(PoolHooks::Scheduler.new)
        pool = PoolHooks::FiberPool.new(max: 100, idle: 0)
        PoolHooks.start(pool, -> {})
        count = GC.count
        MemoryMaps.take_all_but(2_000)
        done = 0
        puts Array.new(3_000) { PoolHooks.start(pool, -> { done += 1 }) }.all?
        puts done, pool.max, GC.count - count
      end.join
    RUBY
    assert_predicate status, :success?, err
    assert_equal %w[true 3000 100], out.split.first(3)
    assert_operator Integer(out.split.last), :<, 20, "they were collected anyhow"
  end

  def test_under_gc_stress
    with_pool do |_pool, start|
      done = 0
      GC.stress = true
      10.times { |i| start.call { sleep(0.001 * i) && done += 1 } }
      Fiber.scheduler.run
      GC.stress = false
      assert_equal 10, done
    ensure
      GC.stress = false
    end
  end

  def test_many_jobs
    count = 0
    with_pool(idle: 256) do |pool, start|
      20.times do
        500.times { |i| start.call { sleep(0.0001 * (i % 5)) && count += 1 } }
        Fiber.scheduler.run
      end
      assert_operator pool.stats[:idle], :<=, 256
      assert_equal 0, pool.stats[:busy]
    end
    assert_equal 10_000, count
  end

  def test_an_abandoned_pool_is_collected
    10.times { Thread.new { PoolHooks::FiberPool.new(warm: 3) }.join }
    3.times { GC.start }
    live = ObjectSpace.each_object(PoolHooks::FiberPool).count
    assert_operator live, :<, 10
  end
end
