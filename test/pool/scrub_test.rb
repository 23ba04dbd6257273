# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/test_build"
require "support/scheduler_case"
require "abaca/fiber_pool"

# What one job leaves, the next one does not see.
class ScrubTest < Minitest::Test
  include SchedulerCase

  # What code finds on its fiber.
  def self.traces
    fiber = Fiber.current
    [Thread.current.keys, fiber.instance_variables, fiber.singleton_methods, fiber.frozen?,
     fiber.respond_to?(:storage) ? fiber.storage.to_h : {}, $!, fiber.blocking?] # rubocop:disable Style/SpecialGlobalVars
  end

  CLEAN = [[], [], [], false, {}, nil, false].freeze

  # One level of it takes several hundred bytes of the machine stack.
  def self.deep(levels, &block) = levels.zero? ? block.call : [0].each { deep(levels - 1, &block) }

  def setup
    super
    @experimental = Warning[:experimental]
    Warning[:experimental] = false # Fiber#storage= is
  end

  def teardown
    Warning[:experimental] = @experimental
    super
  end

  MESSES = {
    local: -> { Thread.current[:local] = "x" * 10 },
    many_locals: -> { 20.times { |i| Thread.current["local#{i}"] = i } },
    variable: -> { Fiber.current.instance_variable_set(:@variable, 1) },
    accessor: lambda {
      Fiber.attr_accessor :scrub_test_state unless Fiber.method_defined?(:scrub_test_state)
      Fiber.current.scrub_test_state = { attributes: {} }
    },
    storage: -> { Fiber[:stored] = 1 if Fiber.respond_to?(:[]=) },
    whole_storage: -> { Fiber.current.storage = { stored: 1 } if Fiber.method_defined?(:storage=) },
    blocking: -> { Fiber.blocking { raise "of a job" } if Fiber.respond_to?(:blocking) },
    rescued: lambda {
      begin
        raise "handled"
      rescue RuntimeError
        nil
      end
    },
    waited_in_rescue: lambda {
      begin
        raise "handled"
      rescue RuntimeError
        sleep 0
      end
    },
    raised: -> { raise "of a job" },
    raised_with_locals: lambda {
      Thread.current[:local] = 1
      raise "of a job"
    },
    thrown: -> { throw :nowhere },
    returned: -> { (@returner ||= Object.new.instance_eval { proc { return } }).call },
    deep: -> { deep(300) { nil } },
    method: -> { Fiber.current.define_singleton_method(:left_over) { nil } },
    frozen: -> { Fiber.current.freeze },
    frozen_with_locals: lambda {
      Thread.current[:local] = 1
      Fiber.current.freeze
    },
    yielded: -> { Fiber.yield }
  }.freeze

  def with_pool(**options)
    with_scheduler do
      Thread.current.report_on_exception = false
      yield Abaca::FiberPool.new(**options)
    end
  end

  def resident = Integer(File.read("/proc/self/statm").split[1]) * 4096

  MESSES.each do |name, mess|
    define_method(:"test_nothing_is_left_of_#{name}") do
      with_pool(max: 1) do |pool|
        pool.run { self.class.class_exec(&mess) }.wait
        assert_equal CLEAN, pool.run { self.class.traces }.value
      end
    end
  end

  def test_nothing_is_left_of_exit
    with_pool(max: 1) do |pool|
      assert_raises(SystemExit) { pool.run { (Thread.current[:local] = 1) && exit } }
      assert_equal CLEAN, pool.run { self.class.traces }.value
    end
  end

  def test_nothing_is_left_of_kill
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    with_pool(max: 1) do |pool|
      pool.run { (Thread.current[:local] = 1) && Fiber.current.kill }.wait
      assert_equal CLEAN, pool.run { self.class.traces }.value
      assert_equal 1, pool.stats[:retired][:killed]
    end
  end

  # The sanitizer keeps freed memory for a while: 32 MB, as test/sanitized.rb says.
  ROOM = (TestBuild.sanitized? ? 16 : 1) * 1024 * 1024

  # What the next job would not see either, but the process does.
  ENDS = {
    exited: -> { exit },
    exited_late: -> { sleep(0) && exit },
    killed: -> { Fiber.current.kill if Fiber.method_defined?(:kill) }
  }.freeze

  # Starts the job; its end may be one that is raised here.
  def soil(pool, mess, seen)
    pool.run { seen[self.class.traces] += 1 and self.class.class_exec(&mess) }
  rescue SystemExit
    nil
  end

  # Runs the loop to its end, however often a job ends it before.
  def run_all
    Fiber.scheduler.run
  rescue SystemExit
    retry
  end

  # All of it in turn. A leak makes every round grow; what else happens in this process comes to rest.
  def test_ten_thousand_jobs
    messes = MESSES.merge(ENDS).values
    seen = Hash.new(0)
    growths = []
    with_pool(max: 20) do |pool|
      until growths.size == 12 || (growths.size >= 4 && growths.last < ROOM)
        before = resident
        3000.times do |i|
          soil(pool, messes[i % messes.size], seen)
          run_all if (i % 50).zero?
        end
        run_all
        GC.start
        growths << (resident - before)
      end
      assert_operator pool.stats[:live], :<=, 20
    end
    assert_equal({ CLEAN => growths.size * 3000 }, seen)
    assert_operator growths.last, :<, ROOM, "the resident set is flat: #{growths}"
  end

  def test_thread_variables_are_the_thread_s
    with_pool(max: 1) do |pool|
      pool.run { Thread.current.thread_variable_set(:scrub_test, 1) }.wait
      assert_equal 1, pool.run { Thread.current.thread_variable_get(:scrub_test) }.value
    end
  end

  # It is the thread's, so a job that left it on would leave it to everybody.
  def test_a_mask_of_interrupts_ends_with_its_job
    with_pool(max: 1) do |pool|
      [-> { raise "of a job" }, -> { throw :nowhere }, -> { sleep 0 }].each do |ending|
        pool.run { Thread.handle_interrupt(KeyError => :never, &ending) }.wait
        assert_raises(KeyError) { pool.run { Thread.current.raise(KeyError) }.value }
      end
    end
  end

  def test_a_job_s_backtrace_is_its_own
    with_pool(max: 1) do |pool|
      3.times do
        frames = pool.run { self.class.deep(3) { sleep 0 } && caller_locations(0) }.value
        assert_equal [File.basename(__FILE__)], frames.map { |frame| File.basename(frame.path) }
      end
    end
  end

  Kept = Class.new

  def run_with(pool, object) = pool.run { sleep(0.001) && object }

  # What a job has captured and returned is garbage when it is over, however long its fiber lies idle. A pool
  # that kept it would keep all; some are found by chance, since Ruby takes for a reference what looks like one
  # on a stack: up to 7 and one in 20.
  def test_an_idle_fiber_keeps_nothing_of_its_last_job
    with_pool do |pool|
      400.times { run_with(pool, Kept.new) }
      Fiber.scheduler.run
      assert_equal 400, pool.stats[:idle]
      3.times { GC.start }
      assert_operator ObjectSpace.each_object(Kept).count, :<, 100
    end
  end
end
