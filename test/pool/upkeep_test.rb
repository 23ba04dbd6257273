# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "open3"
require "rbconfig"
require "abaca/fiber_pool"

# How fibers come and go: trim, the idle timer, retirement, stacks, and the pace of the collector.
class UpkeepTest < Minitest::Test
  include SchedulerCase

  # Ruby makes stacks for fibers by the number, twice as many each time. For one of these pools none is left
  # when it starts the fiber that finds out where fiber-locals are, and what makes more of them collects.
  POOLS_UNDER_STRESS = <<~RUBY
    require "abaca/fiber_pool"
    kept = []
    16.times do |nth|
      (nth % 3).times { kept << Fiber.new { Fiber.yield }.tap { |fiber| fiber.resume } }
      GC.stress = true
      Thread.new { kept << Abaca::FiberPool.new(warm: 1) }.join
      GC.stress = false
    end
    puts kept.size
  RUBY

  def with_pool(within: DEADLINE, **options)
    @clock = nil
    with_scheduler(within: within) do
      Thread.current.report_on_exception = false
      yield Abaca::FiberPool.new(**options)
    end
  end

  # Runs `count` jobs at once, so that there are as many fibers.
  def fill(pool, count)
    Array.new(count) { pool.run { sleep 0.001 } }.each(&:wait)
  end

  # Bytes of the resident set that a block adds.
  def resident = Integer(File.read("/proc/self/statm").split[1]) * 4096

  def deep(levels, &block) = levels.zero? ? block.call : [0].each { deep(levels - 1, &block) }

  # A sanitizer tells when it does; without one the process may crash, or go on by chance.
  def test_no_new_fiber_is_collected_before_it_runs
    paths = $LOAD_PATH.map { |path| "-I#{path}" }
    output, status = Open3.capture2e(RbConfig.ruby, "--disable-gems", *paths, "-e", POOLS_UNDER_STRESS)
    assert_predicate status, :success?, output
    assert_equal "31\n", output
  end

  def test_trim
    with_pool do |pool|
      fill(pool, 10)
      assert_equal 7, pool.trim(3)
      assert_equal({ live: 3, idle: 3 }, pool.stats.slice(:live, :idle))
      assert_equal 0, pool.trim(3)
      assert_equal 3, pool.trim
      assert_equal({ live: 0, idle: 0 }, pool.stats.slice(:live, :idle))
      assert_equal 10, pool.stats[:retired][:trimmed]
      assert_equal 1, pool.run { 1 }.value
      assert_raises(ArgumentError) { pool.trim(-1) }
      assert_raises(TypeError) { pool.trim("all") }
    end
  end

  def test_trim_in_a_fiber_of_the_pool
    with_pool do |pool|
      fill(pool, 10)
      assert_equal 9, pool.run { pool.trim }.value
      Fiber.scheduler.run
      assert_equal({ live: 1, idle: 1, busy: 0 }, pool.stats.slice(:live, :idle, :busy))
    end
  end

  def test_fibers_that_are_not_needed_end_after_a_time
    with_pool(idle_timeout: 1.2) do |pool|
      fill(pool, 10)
      36.times do # three of them stay in use
        Array.new(3) { pool.run { sleep 0.002 } }
        sleep_in_loop 0.1
      end
      assert_equal 7, pool.stats[:retired][:idle]
      assert_equal 3, pool.stats[:live]
      assert loop_until { pool.stats[:live].zero? }
    end
  end

  def test_warm_fibers_stay_and_nothing_keeps_the_loop
    took = seconds do
      with_pool(warm: 4, idle_timeout: 60) { |pool| fill(pool, 10) }
      with_pool(warm: 4, idle_timeout: 0.01) do |pool|
        fill(pool, 10)
        assert loop_until { pool.stats[:live] <= 4 }
        sleep_in_loop 0.05
        assert_equal({ live: 4, idle: 4 }, pool.stats.slice(:live, :idle))
      end
    end
    assert_operator took, :<, 19
  end

  # In slices, and long before the others; then their stacks are collected.
  def test_a_crowd_does_not_lie_idle_for_long
    with_pool(within: 60) do |pool|
      fill(pool, 2_600)
      majors = GC.stat(:major_gc_count)
      assert loop_until(within: 40) { pool.stats[:live] < 2_600 }
      assert loop_until { pool.stats[:live] == 1_024 }
      assert_equal 1_576, pool.stats[:retired][:idle]
      assert_operator GC.stat(:major_gc_count), :>, majors
      fill(pool, 1_024)
      assert_equal 2_600, pool.stats[:created]
    end
  end

  def test_without_an_idle_timeout_they_stay
    with_pool(idle_timeout: nil) do |pool|
      fill(pool, 10)
      sleep_in_loop 0.05
      assert_equal 10, pool.stats[:live]
    end
  end

  def test_bad_options
    [{ idle_timeout: 0 }, { idle_timeout: -1 }, { retire_after: 0 }, { on_full: :drop },
     { on_full: nil }].each do |options|
      assert_raises(ArgumentError, options.inspect) { Abaca::FiberPool.new(**options) }
    end
    [{ max: 1.5 }, { warm: "1" }, { idle: Object.new }, { idle_timeout: "1" }, { retire_after: 2.0 }].each do |options|
      assert_raises(TypeError, options.inspect) { Abaca::FiberPool.new(**options) }
    end
  end

  def test_retire_after
    fibers = []
    with_pool(retire_after: 3) do |pool|
      9.times { pool.run { fibers << Fiber.current } }
      assert_equal({ live: 0, created: 3, reused: 6 }, pool.stats.slice(:live, :created, :reused))
      assert_equal 3, pool.stats[:retired][:jobs]
    end
    assert_equal [3, 3, 3], fibers.tally.values
  end

  def test_retired_fibers_are_replaced_for_waiting_jobs
    with_pool(max: 1, retire_after: 1) do |pool|
      tickets = Array.new(5) { |i| pool.run { sleep(0.001) and i } }
      assert_equal [0, 1, 2, 3, 4], tickets.map(&:value)
      assert_equal 5, pool.stats[:created]
    end
  end

  # A recursion of blocks takes the machine stack; afterwards the memory is not ours any more.
  def test_a_deep_stack_is_given_back
    need_platform(:give_back)
    with_pool do |pool|
      fill(pool, 50)
      before = resident
      Array.new(50) { pool.run { deep(300) { sleep 0.002 } } }.each(&:wait)
      assert_equal 50, pool.stats[:stacks_trimmed]
      # What is left is the stack of Ruby's own machine, 128 KiB a fiber.
      assert_operator resident - before, :<, 50 * 200 * 1024
      trimmed = pool.stats[:stacks_trimmed]
      fill(pool, 50)
      assert_equal trimmed, pool.stats[:stacks_trimmed], "a shallow job leaves nothing to give back"
    end
  end

  def test_a_stack_that_is_always_deep_is_seldom_given_back
    need_platform(:give_back)
    with_pool do |pool|
      100.times { pool.run { deep(300) { nil } } }
      assert_includes 5..10, pool.stats[:stacks_trimmed]
    end
  end

  def test_the_idle_timer_gives_back_what_was_kept
    need_platform(:give_back)
    with_pool(warm: 1, idle_timeout: 0.02) do |pool|
      3.times { pool.run { deep(300) { nil } } } # the third time it is kept
      assert_equal 2, pool.stats[:stacks_trimmed]
      assert loop_until { pool.stats[:stacks_trimmed] == 3 }
      assert_equal 1, pool.stats[:live]
    end
  end

  # Ruby makes at least 128 KiB of it. Nothing below the stack's end may be touched.
  def test_the_smallest_stacks
    code = <<~RUBY
      require "abaca/fiber_pool"
      require "abaca/scheduler"
      def deep(levels, &block) = levels.zero? ? block.call : [0].each { deep(levels - 1, &block) }
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(idle_timeout: 0.01)
      100.times { pool.run { deep(60) { sleep 0.001 } } }
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
      pool.run { sleep 0.01 }.wait until pool.stats[:live] == 1 || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      puts pool.stats[:live]
    RUBY
    saved = ENV.to_h.slice("RUBY_FIBER_MACHINE_STACK_SIZE")
    %w[65536 100000 131072].each do |size|
      ENV["RUBY_FIBER_MACHINE_STACK_SIZE"] = size
      status, out, err = run_ruby(code)
      assert_predicate status, :success?, err
      assert_equal "1\n", out
    end
  ensure
    ENV["RUBY_FIBER_MACHINE_STACK_SIZE"] = saved["RUBY_FIBER_MACHINE_STACK_SIZE"]
  end

  def test_the_heap_grows_with_the_number_of_fibers
    with_pool(idle: 300, idle_timeout: nil) do |pool|
      jobs = Array.new(300) { pool.run { sleep } }
      assert loop_until { pool.stats[:paced_slots].positive? }
      assert_equal 131_072, pool.stats[:paced_slots]
      GC.start
      assert_operator GC.stat(:heap_available_slots) - GC.stat(:heap_live_slots), :>=, 131_072 / 2
      jobs.each(&:cancel)
      jobs.each(&:wait)
    end
  end

  # What counts is how much of the time collections take: here nearly all of it, some seconds of CPU.
  def test_the_heap_grows_further_where_collections_are_dear
    with_pool(within: 120, idle: 500, idle_timeout: nil) do |pool|
      jobs = Array.new(499) { pool.run { sleep } }
      assert loop_until { pool.stats[:paced_slots].positive? }
      assert_equal 131_072, pool.stats[:paced_slots]
      10.times do
        break if pool.stats[:paced_slots] > 131_072

        collect_often(pool)
      end
      collect_often(pool) # that is the end of it, at 512 slots for each of the 500 fibers
      assert_equal 500 * 512, pool.stats[:paced_slots]
      jobs.each(&:cancel)
      jobs.each(&:wait)
    end
  end

  def collect_often(pool)
    1024.times { pool.run { GC.start(full_mark: false) } }
    sleep_in_loop 0.5
  end

  # Who only waits causes no collections, and needs no room for any: memory counts as well.
  def test_the_heap_does_not_grow_further_for_fibers_that_wait
    with_pool(within: 120, idle_timeout: nil) do |pool|
      jobs = Array.new(2000) { pool.run { sleep } }
      assert loop_until { pool.stats[:paced_slots].positive? }
      2.times { compute_and_wait }
      assert_equal 131_072, pool.stats[:paced_slots]
      jobs.each(&:cancel)
      jobs.each(&:wait)
    end
  end

  # With very many fibers there is an end to it: 20,000 times 512 slots would be 400 MB. A process of its
  # own, so that other tests need not have so large a heap collected.
  def test_the_heap_does_not_grow_without_end
    skip "the kernel has no room for 20,000 fibers" if Abaca::FiberPool.new.max < 20_500

    status, out, err = run_ruby(<<~RUBY, within: 60)
      require "abaca/fiber_pool"
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(idle_timeout: nil)
      clock = Abaca::FiberPool.new(gc_pacing: false, idle_timeout: nil)
      jobs = Array.new(20_000) { pool.run { sleep } }
      until pool.stats[:paced_slots] >= 640_000
        clock.run { 5.times { GC.start(full_mark: false) } }
        clock.run { sleep 0.1 }.wait
      end
      clock.run { sleep 0.1 }.wait
      puts pool.stats[:paced_slots]
      jobs.each(&:cancel)
      jobs.each(&:wait)
    RUBY
    assert_predicate status, :success?, err
    assert_equal "640000\n", out
  end

  def test_pacing_can_be_switched_off
    assert_equal true, Abaca::FiberPool.gc_pacing
    Abaca::FiberPool.gc_pacing = false
    [{}, { gc_pacing: false }].each do |options|
      with_pool(**options) do |pool|
        jobs = Array.new(300) { pool.run { sleep } }
        sleep_in_loop 0.05
        assert_equal 0, pool.stats[:paced_slots]
        jobs.each(&:cancel)
      end
    end
  ensure
    Abaca::FiberPool.gc_pacing = true
  end

  # A collector that was switched off by the app stays so.
  def test_pacing_leaves_the_collector_as_it_was
    with_pool do |pool|
      GC.disable
      jobs = Array.new(300) { pool.run { sleep } }
      sleep_in_loop 0.1
      jobs.each(&:cancel)
      assert GC.enable, "it was disabled"
      refute GC.enable
    ensure
      GC.enable
    end
  end

  private

  # More CPU time than it takes to look at what collections cost, with hardly one of them.
  def compute_and_wait
    limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.7
    nil until Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) > limit
    sleep_in_loop 0.6
  end

  # Lets the loop run until the block is true; returns whether it was.
  def loop_until(within: 15)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + within
    until (result = yield) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep_in_loop 0.01
    end
    result
  end

  # Lets the loop run for a while, from its root fiber.
  def sleep_in_loop(seconds)
    @clock ||= Abaca::FiberPool.new(gc_pacing: false, idle_timeout: nil)
    @clock.run { sleep seconds }.wait
  end
end
