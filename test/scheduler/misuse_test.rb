# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "abaca/fiber_pool"
require "net/http"
require "socket"

# What is asked of a scheduler at the wrong time, by the wrong thread, or with the wrong arguments; and
# subclasses that override its hooks.
class MisuseTest < Minitest::Test
  include SchedulerCase

  # Each hook with arguments of the wrong type.
  def test_wrong_types
    reader, _writer = IO.pipe
    in_fiber do |scheduler|
      [-> { scheduler.block(:x, "1") }, -> { scheduler.kernel_sleep("1") }, -> { scheduler.io_wait("io", 1) },
       -> { scheduler.io_wait(reader, "readable") }, -> { scheduler.io_wait(reader, 1, Object.new) },
       -> { scheduler.io_select(1) }, -> { scheduler.io_select([reader], nil, nil, "1") },
       -> { scheduler.io_close("1") }, -> { scheduler.io_read(reader, "buffer", 0) },
       -> { scheduler.io_write(1, "buffer", 0) }, -> { scheduler.process_wait("1", 0) },
       -> { scheduler.address_resolve(1) }, -> { scheduler.timeout_after([]) { nil } }].each_with_index do |call, i|
        assert_raises(TypeError, i.to_s, &call)
      end
      assert_raises(TypeError) { scheduler.fiber_interrupt(Fiber.current, 1) }
      assert_raises(LocalJumpError) { Abaca::Scheduler.instance_method(:fiber).bind_call(scheduler) }
      assert_nil scheduler.unblock(:x, "no fiber")
    end
  end

  def test_copies_are_refused
    [Abaca::Scheduler.new, Abaca::FiberPool.new(max: 1)].each do |original|
      assert_raises(TypeError) { original.dup }
      assert_raises(TypeError) { original.clone }
    end
  end

  def test_wrong_numbers_of_arguments
    in_fiber do |scheduler|
      %i[block unblock io_wait io_select io_read io_pread timeout_after address_resolve process_wait
         fiber_interrupt io_close].each do |hook|
        assert_raises(ArgumentError, hook.to_s) { scheduler.public_send(hook) { nil } }
      end
      assert_raises(ArgumentError) { scheduler.run(1) }
      assert_raises(ArgumentError) { scheduler.kernel_sleep(1, 2) }
    end
  end

  def test_negative_timeouts
    reader, _writer = IO.pipe
    in_fiber do |scheduler|
      [-> { scheduler.block(:x, -1) }, -> { scheduler.kernel_sleep(-0.5) }, -> { scheduler.io_wait(reader, 1, -1) },
       -> { scheduler.io_select([reader], nil, nil, -1) }, -> { scheduler.timeout_after(-1) { nil } }].each do |call|
        assert_raises(ArgumentError, &call)
      end
    end
  end

  def test_closed_ios
    reader, writer = IO.pipe
    [reader, writer].each(&:close)
    in_fiber do |scheduler|
      buffer = IO::Buffer.new(4)
      [-> { scheduler.io_wait(reader, 1) }, -> { scheduler.io_wait(reader, 1, 0) },
       -> { scheduler.io_select([reader]) }, -> { scheduler.io_read(reader, buffer, 0) },
       -> { scheduler.io_write(writer, buffer, 0) }].each { |call| assert_raises(IOError, &call) }
    end
  end

  def test_another_thread
    scheduler = nil
    other = lambda do |&call|
      Thread.new { assert_raises(ThreadError, &call).message }.value
    end
    with_scheduler do |own|
      scheduler = own
      Fiber.schedule { sleep 0.01 }
      [-> { own.run }, -> { own.block(:x) }, -> { own.kernel_sleep(1) }, -> { own.fiber { nil } },
       -> { own.timeout_after(1) { nil } }, -> { own.io_select([]) }].each do |call|
        assert_match(/belongs to another thread/, other.call(&call))
      end
      # These two may come from anywhere.
      Thread.new { [own.unblock(:x, Fiber.current), own.fibers] }.join
    end
    assert_predicate scheduler, :closed?
  end

  def test_run_inside_run
    in_fiber { |scheduler| assert_match(/fibers/, assert_raises(RuntimeError) { scheduler.run }.message) }
  end

  # On the loop's fiber there is nothing to wait for.
  def test_waiting_on_a_blocking_fiber
    with_scheduler do |scheduler|
      done = false
      Fiber.schedule { sleep(0.001) && done = true }
      # When both are due at once it may go on before the fiber.
      assert_equal true, scheduler.kernel_sleep(0.01) until done
    end
  end

  # All hooks, each of which only calls super.
  class Counting < Abaca::Scheduler
    HOOKS = %i[block unblock kernel_sleep io_wait io_read io_write io_pread io_pwrite io_select io_close timeout_after
               address_resolve process_wait blocking_operation_wait fiber fiber_interrupt yield run close
               scheduler_close closed? fibers].freeze

    def calls = (@calls ||= Hash.new(0))

    HOOKS.each do |hook|
      define_method(hook) do |*arguments, **options, &block|
        calls[hook] += 1
        options.empty? ? super(*arguments, &block) : super(*arguments, **options, &block)
      end
    end
  end

  def test_subclasses_that_override_everything
    calls = nil
    thread = Thread.new do
      Fiber.set_scheduler(scheduler = Counting.new)
      calls = scheduler.calls
      queue = Queue.new
      waited = Queue.new
      Fiber.schedule { waited.pop }
      Fiber.schedule { waited << 1 }
      Fiber.schedule(blocking: false) { queue << Timeout.timeout(60) { `echo text` } }
      Fiber.schedule do
        reader, writer = IO.pipe
        Fiber.schedule { sleep(0.001) && writer.write(queue.pop) && writer.close }
        assert_equal "text\n", reader.read
      end
      Fiber.schedule { TCPServer.new("localhost", 0).close }
      scheduler.fibers
      scheduler.run
    end
    assert thread.join(SchedulerCase::DEADLINE)
    missing = %i[block unblock kernel_sleep io_wait io_read io_write timeout_after process_wait address_resolve fiber
                 fibers run] - calls.keys
    assert_empty missing
    assert_operator calls[:close] + calls[:scheduler_close], :>=, 1
  end

  # A subclass whose initialize does not call super.
  class Bare < Abaca::Scheduler
    def initialize # rubocop:disable Lint/MissingSuper
      @own = true
    end
  end

  def test_a_subclass_that_does_not_initialize
    done = false
    Thread.new { Fiber.set_scheduler(Bare.new) && Fiber.schedule { sleep(0.001) && done = true } }.join
    assert done
  end

  # In the first stretch of a fiber, before it has ever waited.
  def test_a_new_fiber_that_raises_in_a_sibling_is_not_stranded
    order = []
    with_scheduler do
      victim = Fiber.schedule do
        sleep 30
      rescue KeyError
        sleep(0.001) && (order << :victim)
      end
      Fiber.schedule { Fiber.schedule { victim.raise(KeyError, "x") || (order << :raiser) } && (order << :parent) }
    end
    assert_equal %i[parent raiser victim], order.sort
  end

  # Fibers that hand over to each other keep no other waiting.
  def test_fibers_that_wake_each_other_starve_no_others
    reader, writer = IO.pipe
    there = Queue.new
    back = Queue.new
    seen = []
    with_scheduler do
      Fiber.schedule { (there << 1) && back.pop while seen.size < 2 }
      Fiber.schedule { there.pop && (back << 1) while seen.size < 2 || !there.empty? }
      Fiber.schedule { seen << reader.gets }
      Fiber.schedule { sleep(0.02) && (seen << :timer) }
      Thread.new { sleep(0.01) && writer.puts("text") }
      Fiber.schedule { sleep 0 until seen.size == 2 }
      Fiber.schedule { sleep(0.001) until seen.size == 2; there << 1 } # rubocop:disable Style/Semicolon
    end
    assert_equal ["text\n", :timer].sort_by(&:to_s), seen.sort_by(&:to_s)
  end

  def test_under_gc_stress_and_compaction
    status, out, err = run_ruby(<<~RUBY, within: 120)
      require "abaca/scheduler"
      require "timeout"
      Thread.new do
        Fiber.set_scheduler(scheduler = Abaca::Scheduler.new(quantum: 0.001))
        mutex = Mutex.new
        queue = Queue.new
        GC.stress = true
        3.times do
          Fiber.schedule { mutex.synchronize { sleep 0.001 }; queue << 1 }
          Fiber.schedule { queue.pop; scheduler.fibers }
          Fiber.schedule { Abaca::Scheduler.no_preempt { 100.times { "x" * 10 } } }
          victim = Fiber.schedule { begin; sleep; rescue KeyError; end }
          Fiber.schedule { sleep 0.001; victim.raise(KeyError) }
        end
        Fiber.schedule { Process.wait(spawn("true")) }
        scheduler.run
        GC.stress = false
        100.times { Fiber.schedule { Timeout.timeout(1) { sleep 0.02 } } }
        Fiber.schedule { begin; 3.times { GC.compact; sleep 0.001 }; rescue NotImplementedError; end }
        scheduler.run
        puts "done"
      end.join
    RUBY
    assert_predicate status, :success?, err
    assert_equal "done\n", out
  end
end
