# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/test_build"
require "support/scheduler_case"

class LifeTest < Minitest::Test
  include SchedulerCase

  def test_the_thread_s_end_runs_what_is_left
    done = false
    Thread.new do
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { sleep(0.01) && done = true }
    end.join(SchedulerCase::DEADLINE)
    assert done
  end

  def test_close_runs_what_is_left_detaches_and_is_idempotent
    with_scheduler do |scheduler|
      done = false
      Fiber.schedule { sleep(0.01) && done = true }
      refute_predicate scheduler, :closed?
      scheduler.close
      assert done
      assert_predicate scheduler, :closed?
      assert_nil Fiber.scheduler
      assert_nil scheduler.close
      assert_nil scheduler.scheduler_close
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.set_scheduler(Abaca::Scheduler.new)
    end
  end

  # A fiber would take the poller away from under the loop that runs it.
  def test_a_fiber_cannot_close_the_scheduler_that_runs_it
    messages = []
    ended = false
    with_scheduler do |scheduler|
      close = lambda do
        messages << assert_raises(RuntimeError) { scheduler.close }.message
        messages << assert_raises(RuntimeError) { Fiber.set_scheduler(nil) }.message
      end
      Fiber.schedule { sleep(0.02) && ended = true }
      Fiber.schedule { sleep(0.001) && close.call }
      scheduler.run
      refute_predicate scheduler, :closed?
      assert ended
    end
    assert_equal ["the scheduler cannot run on one of its fibers"] * 2, messages
  end

  def test_a_fiber_cannot_close_the_scheduler_before_it_runs
    ended = false
    with_scheduler do |scheduler|
      Fiber.schedule { sleep(0.001) && ended = true }
      Fiber.schedule { assert_raises(RuntimeError) { scheduler.close } }
      refute_predicate scheduler, :closed?
      assert_same scheduler, Fiber.scheduler
    end
    assert ended
  end

  # #close of a subclass that counts its calls, and how the scheduler is closed.
  def test_a_subclass_close_is_called_once_however_the_scheduler_ends
    subclass = Class.new(Abaca::Scheduler) do
      attr_reader :calls

      def close
        @calls = calls.to_i + 1
        super
      end
    end
    { end: proc {}, close: proc(&:close), set: proc { Fiber.set_scheduler(nil) },
      scheduler_close: proc(&:scheduler_close) }.each do |how, ending|
      ended = false
      scheduler = subclass.new
      Thread.new do
        Fiber.set_scheduler(scheduler)
        Fiber.schedule { sleep(0.001) && ended = true }
        ending.call(scheduler)
      end.join
      assert ended, how
      assert_predicate scheduler, :closed?, how
      assert_equal 1, scheduler.calls, how unless how == :scheduler_close
    end
  end

  # As Ruby's own example of a scheduler has it.
  def test_a_subclass_scheduler_close_that_calls_close
    subclass = Class.new(Abaca::Scheduler) { def scheduler_close = close }
    [proc {}, proc(&:close)].each do |ending|
      ended = false
      scheduler = subclass.new
      Thread.new do
        Fiber.set_scheduler(scheduler)
        Fiber.schedule { sleep(0.001) && ended = true }
        ending.call(scheduler)
      end.join
      assert ended
      assert_predicate scheduler, :closed?
    end
  end

  def test_a_scheduler_that_was_never_used_can_be_closed
    scheduler = Abaca::Scheduler.new
    assert_nil scheduler.close
    assert_predicate scheduler, :closed?
  end

  def test_closed_schedulers_refuse
    scheduler = Abaca::Scheduler.new.tap(&:close)
    reader, _writer = IO.pipe
    [-> { scheduler.run }, -> { scheduler.fiber { nil } }, -> { scheduler.kernel_sleep(1) },
     -> { scheduler.block(:x, nil) }, -> { scheduler.io_wait(reader, IO::READABLE) },
     -> { scheduler.io_select([reader]) }, -> { scheduler.timeout_after(1) { nil } },
     -> { scheduler.address_resolve("localhost") }, -> { scheduler.process_wait(Process.pid, 0) }].each do |hook|
      error = assert_raises(RuntimeError, &hook)
      assert_match(/closed/, error.message)
    end
    assert_nil scheduler.unblock(:x, Fiber.current)
    assert_nil scheduler.fiber_interrupt(Fiber.current, IOError)
    assert_equal [], scheduler.fibers
  end

  def test_run_inside_run_and_from_another_thread
    in_fiber do |scheduler|
      assert_match(/one of its fibers/, assert_raises(RuntimeError) { scheduler.run }.message)
      error = Thread.new { assert_raises(ThreadError) { scheduler.run } }.value
      assert_match(/another thread/, error.message)
    end
  end

  def test_run_may_be_called_again
    with_scheduler do |scheduler|
      count = 0
      3.times do |i|
        Fiber.schedule { sleep(0.001) && count += 1 }
        scheduler.run
        assert_equal i + 1, count
      end
    end
  end

  def test_an_exception_is_reported_and_ends_nothing_else
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { raise "of a fiber" }
      Fiber.schedule { sleep 0.001; throw :nothing }
      Fiber.schedule { sleep 0.01; puts "goes on" }
    RUBY
    assert_predicate status, :success?
    assert_equal "goes on\n", out
    assert_match(/of a fiber \(RuntimeError\)/, err)
    assert_match(/uncaught throw :nothing/, err)
  end

  def test_report_on_exception_is_heeded
    _, _, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { raise "of a fiber" }
    RUBY
    assert_equal "", err.gsub(TestBuild::STACK_WARNING, "")
  end

  def test_exit_in_a_fiber_ends_the_process
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { sleep 0.01; exit 9 }
      Fiber.schedule { sleep 30; puts "late" }
    RUBY
    assert_equal 9, status.exitstatus, err
    assert_equal "", out
  end

  def test_fibers_of_a_scheduler_that_is_not_the_thread_s
    thread = Thread.new do
      scheduler = Abaca::Scheduler.new
      done = []
      scheduler.fiber { scheduler.kernel_sleep(0.001) && (done << :slept) }
      scheduler.fiber { scheduler.kernel_sleep(0) && exit(3) }
      assert_equal 3, assert_raises(SystemExit) { scheduler.run }.status
      scheduler.close
      assert_equal [:slept], done
    end
    assert thread.join(SchedulerCase::DEADLINE)
  end

  def test_process_errors_are_raised_out_of_run
    [SystemExit, Interrupt, SignalException.new("TERM"), NoMemoryError].each do |error|
      with_scheduler do |scheduler|
        Fiber.schedule { sleep(0.001) && raise(error) }
        assert_raises(error.is_a?(Class) ? error : error.class) { scheduler.run }
      end
    end
  end

  def test_signals_wake_a_blocked_loop
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      queue = Queue.new
      trap("USR1") { queue << :signal }
      trap("USR2") { raise "from a trap" }
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { puts queue.pop }
      Thread.new { sleep 0.05; Process.kill(:USR1, $$) }
      Fiber.scheduler.run
      Fiber.schedule { sleep }
      Thread.new { sleep 0.05; Process.kill(:USR2, $$) }
      begin
        Fiber.scheduler.run
      rescue => error
        puts error.message
      end
      exit!(0) if $stdout.flush
    RUBY
    assert_predicate status, :success?, err
    assert_equal "signal\nfrom a trap\n", out
  end

  # From another process, at any moment: none may be lost between the look and the wait.
  def test_many_signals
    status, out, err = run_ruby(<<~RUBY, within: 60)
      require "abaca/scheduler"
      queue = Queue.new
      trap("USR1") { queue << 1 }
      $stdout.sync = true
      parent = $$
      Fiber.set_scheduler(Abaca::Scheduler.new)
      answer, answered = IO.pipe
      child = fork { 500.times { Process.kill(:USR1, parent); answer.read(1) }; exit!(0) }
      Fiber.schedule { 500.times { queue.pop; answered.write("x") } }
      Fiber.scheduler.run
      Process.wait(child)
      puts "all"
    RUBY
    assert_predicate status, :success?, err
    assert_equal "all\n", out
  end

  def test_a_killed_thread_ends
    thread = Thread.new do
      Fiber.set_scheduler(Abaca::Scheduler.new)
      Fiber.schedule { sleep(0.01) && Thread.current.kill }
      Fiber.scheduler.run
    end
    assert thread.join(SchedulerCase::DEADLINE)
  end

  def test_raise_between_siblings_strands_no_fiber
    order = []
    with_scheduler do
      victim = Fiber.schedule do
        sleep 30
      rescue RuntimeError
        sleep 0.005
        order << :victim
      end
      Fiber.schedule do
        sleep 0.001
        victim.raise("from a sibling")
        order << :raiser
      end
    end
    assert_equal %i[raiser victim], order
  end

  # Each of them raises in the next one, and none has parked when the last one ends.
  def chain_of_raises(log)
    fibers = Array.new(4) do |i|
      Fiber.schedule do
        sleep
      rescue KeyError
        fibers[i + 1]&.raise(KeyError, "on")
        log << i
      end
    end
  end

  def test_a_chain_of_raises_strands_no_fiber
    order = []
    with_scheduler { chain_of_raises(order)[0].raise(KeyError, "first") }
    assert_equal [0, 1, 2, 3], order.sort
  end

  def test_a_chain_of_raises_in_a_fiber_strands_no_fiber
    order = []
    with_scheduler { Fiber.schedule { chain_of_raises(order)[0].raise(KeyError, "first") || (order << 4) } }
    assert_equal [0, 1, 2, 3, 4], order.sort
  end

  # Ruby ends a fiber that was killed at the next switch to it, in its ensure blocks too.
  def test_a_chain_of_kills_strands_no_fiber
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    fibers = nil
    with_scheduler do
      fibers = Array.new(4) do |i|
        Fiber.schedule do
          sleep
        ensure
          fibers[i + 1]&.kill
        end
      end
      fibers[0].kill
    end
    assert(fibers.none?(&:alive?))
  end

  # Who is raised in goes on, raises back, and starts another fiber before it parks.
  def test_raise_back_and_forth_strands_no_fiber
    order = []
    with_scheduler do
      second = nil
      first = Fiber.schedule do
        sleep rescue second.raise("there") rescue Fiber.schedule { order << :new } # rubocop:disable Style/RescueModifier
        sleep(0.001) && (order << :first)
      end
      second = Fiber.schedule do
        sleep rescue first.raise("back") # rubocop:disable Style/RescueModifier
        order << :second
      end
      first.raise("go")
    end
    assert_equal %i[first new second], order.sort
  end

  def test_raise_into_every_kind_of_wait
    reader, _writer = IO.pipe
    mutex = Mutex.new
    variable = ConditionVariable.new
    other = Mutex.new
    thread = nil
    waits = [-> { mutex.synchronize { nil } }, -> { Queue.new.pop }, -> { reader.read(1) }, -> { sleep },
             -> { other.synchronize { variable.wait(other) } }, -> { (thread = Thread.new { sleep }).join }]
    raisers = 0
    with_scheduler do
      Fiber.schedule { mutex.synchronize { sleep 0.05 } }
      waits.each do |wait|
        victim = Fiber.schedule { assert_raises(KeyError, &wait) }
        Fiber.schedule { victim.raise(KeyError, "x") || raisers += 1 }
      end
    end
    assert_equal waits.size, raisers
  ensure
    thread&.kill
  end

  def test_raise_into_a_fiber_that_is_about_to_run
    order = []
    with_scheduler do
      queue = Queue.new
      victim = Fiber.schedule { queue.pop && (order << :popped) rescue order << :raised } # rubocop:disable Style/RescueModifier
      Fiber.schedule do
        queue << 1
        victim.raise("now")
        order << :raiser
      end
    end
    assert_equal %i[raised raiser], order.sort
  end

  # Raised in from the root fiber, which runs no loop: whoever waits next there runs it.
  def test_raise_from_the_root_fiber_while_the_loop_does_not_run
    order = []
    with_scheduler do |scheduler|
      wait = ->(name, again) { (sleep rescue (sleep(0.02) if again)) && (order << name) } # rubocop:disable Style/RescueModifier
      ends = Fiber.schedule { wait.call(:ends, false) }
      waits = Fiber.schedule { wait.call(:waits, true) }
      inner = Fiber.new { wait.call(:inner, true) }
      Fiber.schedule { inner.resume && (order << :outer) }
      [ends, waits, inner].each do |fiber|
        fiber.raise("x")
        assert_equal(:waited, Fiber.new { sleep(0.001) && :waited }.resume)
      end
      scheduler.run
    end
    assert_equal %i[inner outer waits], order.sort
  end

  def test_kill_between_siblings
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    order = []
    with_scheduler do
      victim = Fiber.schedule do
        sleep 30
      ensure
        order << :victim
      end
      Fiber.schedule { victim.kill && (order << :killer) }
    end
    assert_equal %i[victim killer], order
  end

  def test_transfer_to_a_fiber_of_one_s_own
    order = []
    with_scheduler do
      Fiber.schedule do
        Fiber.new { sleep(0.001) && (order << :inner) }.transfer
        order << :outer
      end
    end
    assert_equal %i[inner outer], order.sort
  end

  def test_fiber_interrupt_is_delivered_at_the_wait
    order = []
    with_scheduler do |scheduler|
      fiber = Fiber.schedule { assert_raises(IOError) { sleep 30 } && (order << :interrupted) }
      scheduler.fiber_interrupt(fiber, IOError.new("x"))
      order << :queued
      scheduler.fiber_interrupt(Fiber.schedule { nil }, IOError.new("too late"))
    end
    assert_equal %i[queued interrupted], order
  end

  def test_storage_is_inherited
    skip "Fiber storage is of Ruby 3.2" unless Fiber.respond_to?(:[])
    in_fiber do
      Fiber[:key] = :value
      inner = nil
      Fiber.schedule { inner = Fiber[:key] }
      assert_equal :value, inner
      Fiber.schedule(storage: { key: :own }) { inner = Fiber[:key] }
      assert_equal :own, inner
    end
  end

  def test_under_gc_stress
    status, out, err = run_ruby(<<~RUBY, within: 120)
      require "abaca/scheduler"
      require "timeout"
      Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new)
        queue = Queue.new
        reader, writer = IO.pipe
        GC.stress = true
        5.times do |i|
          Fiber.schedule { sleep 0.001 * i; queue << i }
          Fiber.schedule { queue.pop; writer.puts(i.to_s) }
          Fiber.schedule { begin; Timeout.timeout(0.01) { sleep 1 }; rescue Timeout::Error; end }
          Fiber.schedule { Fiber.scheduler.address_resolve("localhost") }
        end
        Fiber.schedule { 5.times { reader.gets }; GC.stress = false; puts "done" }
      end.join
    RUBY
    assert_predicate status, :success?, err
    assert_equal "done\n", out
  end

  def test_an_abandoned_scheduler_is_collected
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      before = Dir.children("/proc/self/fd").size
      50.times { Thread.new { scheduler = Abaca::Scheduler.new; scheduler.fiber { scheduler.block(:never, nil) } }.join }
      10.times { Abaca::Scheduler.new }
      GC.start
      GC.compact if GC.respond_to?(:compact)
      3.times { GC.start }
      puts Dir.children("/proc/self/fd").size - before < 60
    RUBY
    assert_predicate status, :success?, err
    assert_equal "true\n", out
  end

  def test_mark_survives_compaction
    skip "no compaction here" unless GC.respond_to?(:compact)
    done = 0
    with_scheduler do
      100.times { |i| Fiber.schedule { sleep(0.01 + (i * 0.0001)) && done += 1 } }
      Fiber.schedule { 3.times { GC.compact || sleep(0.002) } }
    rescue NotImplementedError
      nil
    end
    assert_equal 100, done
  end
end
