# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "digest"
require "json"
require "monitor"
require "set"
require "zlib"

# Scheduler.new(quantum:): fibers that only compute make room for others.
class PreemptTest < Minitest::Test
  include SchedulerCase

  # The threads of this process that Ruby does not know of are told apart by their number.
  def native_threads = Dir.children("/proc/self/task").size

  # The block ends it early.
  def compute(seconds)
    limit = SchedulerCase.clock + seconds
    count = 0
    count += 1 while SchedulerCase.clock < limit && !(block_given? && yield)
    count
  end

  def test_off_by_default
    order = []
    before = native_threads
    with_scheduler do |scheduler|
      assert_nil scheduler.quantum
      Fiber.schedule { sleep(0.001) && compute(0.05) && (order << :hog) }
      Fiber.schedule { sleep(0.002) && (order << :other) }
      Fiber.schedule { sleep(0.003) && assert_operator(native_threads, :<=, before + 1) }
    end
    assert_equal %i[hog other], order
  end

  def test_a_fiber_that_computes_makes_room
    gaps = []
    shares = [0, 0, 0]
    with_scheduler(quantum: 0.005) do |scheduler|
      assert_in_delta 0.005, scheduler.quantum
      limit = SchedulerCase.clock + 18
      goes_on = -> { gaps.size < 40 && SchedulerCase.clock < limit }
      3.times { |i| Fiber.schedule { sleep(0.001) && (shares[i] += 1 while goes_on.call) } }
      Fiber.schedule do
        gaps << seconds { sleep 0.001 } while goes_on.call
      end
    end
    assert_equal 40, gaps.size
    assert_operator gaps.sort[gaps.size / 2], :<, 0.2
    assert_operator shares.min, :>, shares.max / 3, shares.inspect
  end

  def test_a_region_without_preemption
    turns = 0
    seen = []
    done = false
    with_scheduler(quantum: 0.002) do
      Fiber.schedule { (turns += 1) && sleep(0.001) until done }
      Fiber.schedule do
        sleep 0.001
        note = -> { compute(0.05) && (seen << turns) }
        value = Abaca::Scheduler.no_preempt do
          seen << turns
          note.call
          sleep 0.01 # it may wait
          seen << turns
          note.call
          :value
        end
        assert_equal :value, value
        assert_raises(KeyError) { Abaca::Scheduler.no_preempt { raise KeyError } }
        compute(10) { turns > seen.last }
        seen << turns
      ensure
        done = true
      end
    end
    assert_equal [seen[1], seen[3]], [seen[0], seen[2]], "no other fiber ran"
    assert_operator seen[2], :>, seen[1]
    assert_operator seen[4], :>, seen[3]
  end

  # It could not wait, so nor can it make room.
  def test_a_blocking_fiber_is_left_alone
    order = []
    with_scheduler(quantum: 0.002) do
      Fiber.schedule do
        sleep 0.001
        Fiber.new(blocking: true) { compute(0.06) && (order << :blocking) }.resume
        compute(10) { order.include?(:other) }
        order << :hog
      end
      Fiber.schedule { sleep(0.005) && (order << :other) }
    end
    assert_equal %i[blocking other hog], order
  end

  def test_a_region_elsewhere_only_runs_the_block
    assert_equal 1, Abaca::Scheduler.no_preempt { 1 }
    assert_raises(LocalJumpError) { Abaca::Scheduler.no_preempt }
    assert_equal(2, in_fiber { Abaca::Scheduler.no_preempt { 2 } })
  end

  # One kind of work each, with its expected result; all of them at the same time, at 1 ms.
  WORK = {
    sort: -> { (0...300).to_a.reverse.sort { |a, b| a <=> b } == (0...300).to_a },
    hash: -> { (0...200).to_h { |i| [i, i.to_s] }.each { |k, v| raise if k.to_s != v }.size == 200 },
    json: -> { (object = { "a" => [1, 2.5, nil, "x" * 50] * 20 }) == JSON.parse(JSON.generate(object)) },
    regexp: -> { ("ab" * 200).scan(/(a)(b)/).size == 200 && $LAST_MATCH_INFO[2] == "b" },
    enumerator: lambda do
      each = [1, 2, 3].each
      50.times.all? { each.rewind && [each.next, each.peek, each.next, each.next] == [1, 2, 2, 3] }
    end,
    lazy: -> { (1..Float::INFINITY).lazy.map { |x| x * 2 }.select { |x| (x % 3).zero? }.first(50).last == 300 },
    generator: lambda do
      fiber = Fiber.new { 100.times { |i| Fiber.yield i } }
      Array.new(100) { fiber.resume } == (0...100).to_a
    end,
    exceptions: lambda do
      100.times.all? do |i|
        raise KeyError, i.to_s
      rescue KeyError => e
        e.message == i.to_s
      end
    end,
    throw: -> { 100.times.all? { |i| catch(:tag) { throw :tag, i } == i } },
    inspect: -> { [[1, { a: 2 }], "x"].inspect.include?("2") },
    digest: -> { Digest::MD5.hexdigest("x" * 10_000) == "b567fcb68d8555227123ab87e255872e" },
    zlib: -> { Zlib::Inflate.inflate(Zlib::Deflate.deflate("x" * 20_000)).size == 20_000 },
    bignum: -> { (3**500) % (10**50) == 3.pow(500, 10**50) },
    locals: -> { (a = 1) && 500.times { a += 1 } && a == 501 },
    set: -> { Set.new((0...200).map { |i| i % 50 }).size == 50 },
    gc: -> { GC.start(full_mark: false) || true },
    thread: -> { Thread.new { 5 }.value == 5 },
    struct: -> { Array.new(100) { |i| Struct.new(:a).new(i).a } == (0...100).to_a }
  }.freeze

  def test_the_results_are_right
    wrong = Hash.new(0)
    rounds = 0
    with_scheduler(quantum: 0.001) do
      limit = SchedulerCase.clock + 2
      WORK.each do |name, work|
        2.times do
          Fiber.schedule do
            while SchedulerCase.clock < limit || rounds <= WORK.size * 2
              wrong[name] += 1 unless work.call
              rounds += 1
            end
          end
        end
      end
    end
    assert_empty wrong
    assert_operator rounds, :>, WORK.size * 2
  end

  def test_locks_are_exact
    mutex = Mutex.new
    monitor = Monitor.new
    queue = SizedQueue.new(3)
    counts = Hash.new(0)
    with_scheduler(quantum: 0.001) do
      4.times do
        Fiber.schedule do
          200.times do
            mutex.synchronize { (old = counts[:mutex]) && compute(0.0002) && (counts[:mutex] = old + 1) }
            monitor.synchronize { (old = counts[:monitor]) && compute(0.0002) && (counts[:monitor] = old + 1) }
          end
        end
      end
      Fiber.schedule { 500.times { |i| (queue << i) && compute(0.0001) } && queue.close }
      Fiber.schedule do
        while (value = queue.pop)
          counts[:queue] += value
        end
      end
    end
    assert_equal({ mutex: 800, monitor: 800, queue: 499 * 250 }, counts)
  end

  LOADED = [] # rubocop:disable Style/MutableConstant -- by the file

  class << self
    attr_accessor :turns
  end

  # Ruby locks a file while it loads it: the second fiber waits for the one that was preempted in it.
  def test_a_file_that_two_fibers_require
    verbose = $VERBOSE
    $VERBOSE = nil # Ruby 3.1 calls it circular
    Dir.mktmpdir do |folder|
      path = File.join(folder, "abaca_preempted.rb")
      File.write(path, <<~RUBY)
        limit = SchedulerCase.clock + 10
        nil until PreemptTest.turns > 1 || SchedulerCase.clock > limit
        PreemptTest::LOADED << __FILE__
      RUBY
      results = []
      self.class.turns = 0
      with_scheduler(quantum: 0.001) do
        2.times { Fiber.schedule { sleep(0.001) && (results << [require(path), LOADED.include?(path)]) } }
        Fiber.schedule { (self.class.turns += 1) && sleep(0.001) while results.size < 2 }
      end
      # Whichever runs first when the file is loaded.
      assert_equal [[false, true], [true, true]], results.sort_by(&:to_s)
      assert_operator self.class.turns, :>, 1
    ensure
      $LOADED_FEATURES.delete(path)
    end
  ensure
    $VERBOSE = verbose
  end

  # What is raised in a fiber that was preempted reaches it when it waits.
  def test_raise_into_a_fiber_that_was_preempted
    order = []
    with_scheduler(quantum: 0.002) do
      victim = Fiber.schedule do
        sleep 0.001
        compute(0.1)
        order << :computed
        sleep 60
        order << :never
      rescue KeyError
        order << :raised
      end
      Fiber.schedule { (sleep(0.01) && victim.raise(KeyError, "x")) || (order << :raiser) }
      Fiber.schedule { sleep(0.02) && (order << :other) }
    end
    assert_equal %i[computed other raised raiser], order.sort
    assert_operator order.index(:computed), :<, order.index(:raised)
  end

  def test_kill_of_a_fiber_that_was_preempted
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    order = []
    with_scheduler(quantum: 0.002) do
      victim = Fiber.schedule do
        sleep 0.001
        compute(0.1)
        sleep 600
        order << :never
      ensure
        order << :ensured
      end
      Fiber.schedule { sleep(0.01) && victim.kill && (order << :killer) }
    end
    assert_equal %i[ensured killer], order.sort
  end

  def test_a_timeout_reaches_the_next_wait_and_nothing_behind_its_block
    with_scheduler(quantum: 0.002) do
      Fiber.schedule do
        sleep 0.001
        assert_raises(Timeout::Error) { Timeout.timeout(0.01) { compute(0.05) && sleep(60) } }
        assert_equal :done, Timeout.timeout(0.01) { compute(0.05) && :done }
        nothing_for(0.02)
      end
      Fiber.schedule { 20.times { sleep 0.002 } }
    end
  end

  # On some Rubies its end runs the fibers that are left.
  def test_a_thread_that_is_killed_ends
    10.times do
      begun = killed = ran_to_its_end = false
      thread = Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new(quantum: 0.001))
        3.times { Fiber.schedule { sleep(0.001) && compute(60) { (begun = true) && killed } } }
        Fiber.scheduler.run
        ran_to_its_end = true
      end
      assert(eventually { begun })
      thread.kill
      killed = true
      assert thread.join(SchedulerCase::DEADLINE)
      refute ran_to_its_end, "the kill was lost"
    end
  end

  # Thread#raise hits whichever fiber runs, or the loop: it must hit one of them.
  def test_what_is_raised_in_the_thread_is_not_lost
    5.times do
      hits = 0
      begun = false
      thread = Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new(quantum: 0.001))
        3.times do
          Fiber.schedule do
            sleep(0.001) && compute(60) { (begun = true) && hits.positive? }
          rescue KeyError
            hits += 1
          end
        end
        Fiber.scheduler.run
      rescue KeyError
        hits += 1
      end
      assert(eventually { begun })
      nothing_for(0.02)
      thread.raise(KeyError, "x")
      assert thread.join(SchedulerCase::DEADLINE)
      assert_equal 1, hits
    end
  end

  def test_signals_are_not_lost
    status, out, err = run_ruby(<<~RUBY, within: 60)
      require "abaca/scheduler"
      count = 0
      trap("USR1") { count += 1 }
      Fiber.set_scheduler(Abaca::Scheduler.new(quantum: 0.001))
      parent = $$
      answer, answered = IO.pipe
      child = fork { 50.times { Process.kill(:USR1, parent); answer.read(1) }; exit!(0) }
      Fiber.schedule { sleep 0.001; 1 + 1 until count == 50 }
      Fiber.schedule { seen = 0; while seen < 50; sleep 0.001; (answered.write("x"); seen += 1) if count > seen; end }
      Fiber.scheduler.run
      Process.wait(child)
      puts count
    RUBY
    assert_predicate status, :success?, err
    assert_equal "50\n", out
  end

  def test_the_watchdog_sleeps_ends_and_is_not_in_a_child
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      threads = -> { Dir.children("/proc/self/task") }
      before = threads.call
      Fiber.set_scheduler(Abaca::Scheduler.new(quantum: 0.001))
      switches = lambda do |task|
        File.read("/proc/self/task/\#{task}/status")[/^voluntary_ctxt_switches:\\s+(\\d+)/, 1].to_i
      end
      Fiber.schedule do
        sleep 0.001 until (watchdog = (threads.call - before).last)
        first = switches.call(watchdog)
        sleep 0.3
        idle = switches.call(watchdog) - first
        pid = fork do
          Fiber.set_scheduler(nil) if Fiber.scheduler
          exit!(threads.call.size)
        end
        Process.wait(pid)
        puts "idle \#{idle < 40} child \#{$?.exitstatus <= 2}"
      end
      Fiber.scheduler.run
      Fiber.set_scheduler(nil)
      puts "left \#{(threads.call - before).size <= 1}"
    RUBY
    assert_predicate status, :success?, err
    assert_equal "idle true child true\nleft true\n", out
  end

  def test_bad_quanta_are_refused
    [0, -1, 0.0001, 61, Float::NAN, Float::INFINITY].each do |quantum|
      assert_raises(ArgumentError, quantum.to_s) { Abaca::Scheduler.new(quantum: quantum) }
    end
    assert_raises(TypeError) { Abaca::Scheduler.new(quantum: "1") }
    assert_raises(ArgumentError) { Abaca::Scheduler.new(quanta: 1) }
  end
end
