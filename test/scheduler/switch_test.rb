# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "io/wait"

# Who runs when: what switches and what does not, and fibers that are switched to from outside the loop.
class SwitchTest < Minitest::Test
  include SchedulerCase

  # A fiber that counts the turns it gets, for as long as the block runs. The block may ask for the count.
  def beside
    turns = 0
    in_fiber do |scheduler|
      runs = true
      Fiber.schedule { (turns += 1) && sleep(0) while runs }
      yield scheduler, -> { turns }
    ensure
      runs = false
    end
  end

  # An answer that a client of HTTP wants before each request: it must not cost the others' turns.
  def test_a_question_lets_no_fiber_run
    reader, writer = IO.pipe
    beside do |scheduler, turns|
      before = turns.call
      assert_equal false, scheduler.io_wait(reader, IO::READABLE, 0)
      assert_nil reader.wait_readable(0)
      assert_equal IO::WRITABLE, scheduler.io_wait(writer, IO::WRITABLE, 0)
      assert_nil scheduler.io_select([reader], nil, nil, 0)
      assert_equal before, turns.call
      assert_equal false, scheduler.io_wait(reader, IO::READABLE, 0.001)
      assert_operator turns.call, :>, before
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_waking_runs_no_fiber
    order = []
    with_scheduler do |scheduler|
      blocked = Fiber.schedule { scheduler.block(:x, 60) && (order << :blocked) }
      asleep = Fiber.schedule { sleep && (order << :asleep) }
      Fiber.schedule do
        scheduler.unblock(:x, blocked)
        scheduler.unblock(:x, asleep)
        order << :waker
      end
      scheduler.run
    end
    assert_equal %i[waker blocked asleep], order
  end

  def test_yield
    beside do |scheduler, turns|
      before = turns.call
      5.times { assert_nil scheduler.yield }
      assert_operator turns.call - before, :>=, 5
    end
  end

  # Where there is no fiber to switch to, or none that may be.
  def test_yield_of_the_loop_s_own_fiber
    with_scheduler do |scheduler|
      ran = false
      Fiber.schedule { sleep(0) && ran = true }
      assert_nil scheduler.yield
      refute ran
      scheduler.close
      assert_nil scheduler.yield
      assert ran
    end
  end

  # Ruby 4.0 calls it in whatever fiber handles a signal: in the loop's own, when that is one that may wait.
  def test_yield_in_a_loop_that_runs_on_a_non_blocking_fiber
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      Fiber.set_scheduler(scheduler = Abaca::Scheduler.new)
      order = []
      waiter = home = nil
      trap("USR1") do
        next unless Fiber.current == home && waiter&.alive?
        scheduler.unblock(:x, waiter)
        scheduler.yield
        order << :trap
      end
      home = Fiber.new do
        waiter = Fiber.schedule { scheduler.block(:x) && order << :waiter }
        scheduler.run
      end
      child = spawn("while kill -USR1 \#{$$}; do sleep 0.05; done")
      home.resume
      Process.kill(:KILL, child)
      Process.wait(child)
      p order.first, order.last, home.alive?
    RUBY
    assert_predicate status, :success?, err
    assert_equal ":trap\n:waiter\nfalse\n", out
  end

  # What comes with a switch is not what the fiber has waited for.
  def test_a_parked_fiber_that_is_switched_to_goes_on_waiting
    reader, writer = IO.pipe
    got = {}
    seen = nil
    with_scheduler do |scheduler|
      fibers = [Fiber.schedule { got[:block] = scheduler.block(:x, 10) },
                Fiber.schedule { got[:time] = scheduler.block(:y, 1) },
                Fiber.schedule { got[:io] = scheduler.io_wait(reader, IO::READABLE, 10) }]
      Fiber.schedule do
        seen = [fibers.map { |fiber| fiber.transfer(:forged) }, fibers.map(&:alive?), got.dup]
        scheduler.unblock(:x, fibers.first)
        writer.write("x")
      end
    end
    assert_equal [[nil] * 3, [true] * 3, {}], seen
    assert_equal({ block: true, io: IO::READABLE, time: false }, got)
  ensure
    [reader, writer].each(&:close)
  end

  # The fiber that raises or kills goes on, and so do those that wait for what the victim had.
  def test_kill_out_of_every_kind_of_wait
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    reader, writer = IO.pipe
    mutex = Mutex.new
    queue = Queue.new
    full = SizedQueue.new(1) << 0
    variable = ConditionVariable.new
    other = Mutex.new
    thread = child = nil
    waits = { mutex: -> { mutex.synchronize { flunk } }, queue: -> { queue.pop }, full: -> { full << 1 },
              condition: -> { other.synchronize { variable.wait(other) } }, sleep: -> { sleep },
              io: -> { reader.read(1) }, thread: -> { (thread = Thread.new { sleep }).join },
              child: -> { Process.wait(child = spawn("sleep 60")) },
              name: -> { Fiber.scheduler.address_resolve("localhost") } }
    unwound = []
    killed = []
    with_scheduler do
      Fiber.schedule { mutex.synchronize { sleep 0.01 } }
      waits.each do |name, wait|
        victim = Fiber.schedule do
          wait.call
          flunk name
        ensure
          unwound << name
        end
        Fiber.schedule { killed << name if victim.kill }
      end
      Fiber.schedule do
        assert(eventually { killed.size == waits.size })
        assert_equal [0, :pushed], [full.pop, (queue << :pushed).pop]
        writer.write("x")
        assert_equal "x", reader.read(1)
        assert_equal :locked, mutex.synchronize { other.synchronize { variable.signal && :locked } }
      end
    end
    assert_equal waits.keys, unwound
    assert_equal waits.keys.sort, killed.sort
  ensure
    [reader, writer].compact.each(&:close)
    thread&.kill
    child && Process.kill(:KILL, child) && Process.wait(child)
  end

  # Ruby 3.1 runs an Enumerator in a blocking fiber, where it asks no hook.
  def test_an_enumerator_that_waits
    beside do |_, turns|
      before = turns.call
      enumerator = Enumerator.new { |yielder| 2.times { |i| sleep(0.005) && (yielder << i) } }
      assert_equal [0, 1], [enumerator.next, enumerator.next]
      RUBY_VERSION < "3.2" ? assert_equal(before, turns.call) : assert_operator(turns.call, :>, before)
    end
  end

  # Fibers of the scheduler are switched to, not resumed: there is nothing to yield to.
  def test_fiber_yield_has_nowhere_to_go
    in_fiber do
      assert_raises(FiberError) { Fiber.yield }
      sleep 0.001
      assert_raises(FiberError) { Fiber.yield }
      other = Fiber.schedule { sleep 0.001 }
      assert_raises(FiberError) { other.resume }
    end
  end
end
