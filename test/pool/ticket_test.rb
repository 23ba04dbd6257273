# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/fiber_pool_case"

# FiberPool#run and what the owner of a ticket may do.
class TicketTest < Minitest::Test
  include FiberPoolCase

  def test_a_job_starts_at_once_and_gives_its_value
    with_pool do |pool|
      steps = []
      ticket = pool.run { steps << 1 and sleep(0.001) and :value }
      assert_equal [1], steps
      assert_predicate ticket, :alive?
      assert_equal :running, ticket.status
      assert_equal :value, ticket.value
      refute_predicate ticket, :alive?
      assert_equal :done, ticket.status
      assert_same ticket, ticket.wait
    end
  end

  def test_run_from_a_fiber_of_the_loop
    value = in_fiber do
      pool = Abaca::FiberPool.new
      order = []
      tickets = Array.new(3) { |i| pool.run { order << i and sleep(0.001) and i } }
      [order, tickets.map(&:value), pool.run { pool.run { :inner }.value }.value]
    end
    assert_equal [[0, 1, 2], [0, 1, 2], :inner], value
  end

  def test_value_raises_what_the_job_raised
    with_pool do |pool|
      [KeyError, NotImplementedError, SecurityError].each do |error|
        early = pool.run { raise error, "early" }
        late = pool.run { sleep(0.001) and raise error, "late" }
        assert_equal "early", assert_raises(error) { early.value }.message
        assert_equal "late", assert_raises(error) { late.value }.message
        assert_equal :failed, late.status
        assert_same late, late.wait
      end
      assert_raises(UncaughtThrowError) { pool.run { throw :nowhere }.value }
      assert_raises(LocalJumpError) { pool.run(&proc { break }).value }
      assert_equal 0, pool.stats[:retired].values.sum
    end
  end

  def test_an_exception_is_reported_like_a_thread_s
    with_scheduler do
      Thread.current.report_on_exception = true
      ticket = nil
      text = capture_stderr { ticket = Abaca::FiberPool.new.run { raise KeyError, "of a job" } }
      assert_match(/of a job \(KeyError\)/, text)
      assert_raises(KeyError) { ticket.value }
    end
  end

  def test_wait_has_an_end
    with_pool do |pool|
      ticket = pool.run { sleep }
      assert_nil ticket.wait(0)
      took = seconds { assert_nil ticket.wait(0.02) }
      assert_operator took, :>=, 0.02
      assert_raises(ArgumentError) { ticket.wait(-1) }
      assert_raises(TypeError) { ticket.wait("soon") }
      Fiber.schedule { sleep(0.001) and ticket.cancel }
      assert_same ticket, ticket.wait(60)
    end
  end

  def test_many_may_wait_for_one
    with_pool do |pool|
      ticket = pool.run { sleep(0.005) and 7 }
      waits = Array.new(20) { pool.run { ticket.value } }
      assert_equal [7] * 20, waits.map(&:value)
    end
  end

  def test_a_wait_survives_an_unblock_without_reason
    with_pool do |pool|
      ticket = pool.run { sleep(0.02) and 1 }
      fiber = nil
      waiter = pool.run { (fiber = Fiber.current) && ticket.value }
      Fiber.scheduler.unblock(ticket, fiber)
      assert_equal 1, waiter.value
    end
  end

  def test_a_job_cannot_wait_for_itself
    with_pool do |pool|
      ticket = nil
      errors = []
      ticket = pool.run do
        sleep 0.001
        errors << assert_raises(ThreadError) { ticket.value }
        Fiber.new { errors << assert_raises(ThreadError) { ticket.wait } }.resume
      end
      ticket.value
      assert_match(/itself/, errors.map(&:message).uniq.join)
      assert_equal 2, errors.size
    end
  end

  def test_jobs_beyond_max_wait_in_order
    with_pool(max: 2) do |pool|
      order = []
      tickets = Array.new(10) { |i| pool.run { order << i and sleep(0.001) and i } }
      assert_equal %i[running running] + ([:waiting] * 8), tickets.map(&:status)
      assert_equal({ waiting: 8, busy: 2 }, pool.stats.slice(:waiting, :busy))
      assert_equal (0..9).to_a, tickets.map(&:value)
      assert_equal (0..9).to_a, order
      assert_equal({ waiting: 0, live: 2, created: 2, reused: 8 }, pool.stats.slice(:waiting, :live, :created, :reused))
    end
  end

  def test_the_queue_goes_on_after_accidents
    with_pool(max: 1) do |pool|
      tickets = [pool.run { sleep(0.001) and raise KeyError }, pool.run { raise KeyError },
                 pool.run { Fiber.current.freeze }, pool.run { :last }]
      assert_equal :last, tickets.last.value
      assert_equal %i[failed failed done done], tickets.map(&:status)
      assert_equal 1, pool.stats[:retired][:dirty]
    end
  end

  def test_a_long_queue_leaves_room_for_others
    with_pool(max: 1) do |pool|
      first = pool.run { sleep 0.001 }
      turns = done = 0
      other = Fiber.schedule { (turns += 1) && sleep(0) while done < 1000 }
      1000.times { pool.run { done += 1 } }
      first.wait
      Fiber.scheduler.run
      refute_predicate other, :alive?
      assert_equal 1000, done
      assert_operator turns, :>, 10
    end
  end

  def test_on_full_raise
    with_pool(max: 1, on_full: :raise) do |pool|
      first = pool.run { sleep 0.001 }
      error = assert_raises(Abaca::FiberPool::Full) { pool.run { flunk } }
      assert_kind_of Abaca::Error, error
      assert_match(/1/, error.message)
      first.wait
      assert_equal 2, pool.run { 2 }.value
    end
  end

  def test_raise_reaches_the_job_where_it_waits
    reader, writer = IO.pipe
    queue = Queue.new
    waits = [-> { sleep }, -> { reader.read(1) }, -> { queue.pop }, -> { Fiber.new { sleep }.resume }]
    with_pool do |pool|
      waits.each do |wait|
        ticket = pool.run do
          wait.call
        rescue KeyError => e
          e.message
        end
        assert ticket.raise(KeyError, "hello")
        assert_equal "hello", ticket.value
        refute ticket.raise(KeyError, "too late")
      end
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_raise_takes_what_kernel_raise_takes
    with_pool do |pool|
      { [] => RuntimeError, ["text"] => RuntimeError, [KeyError] => KeyError, [KeyError.new("x")] => KeyError }
        .each do |arguments, expected|
          ticket = pool.run { sleep }
          ticket.raise(*arguments)
          assert_raises(expected) { ticket.value }
        end
      ticket = pool.run { sleep }
      assert_raises(TypeError) { ticket.raise(1) }
      assert_raises(TypeError) { ticket.raise(Object) }
      assert_predicate ticket, :alive?
      ticket.cancel
    end
  end

  def test_raise_never_reaches_the_next_job
    with_pool(max: 1) do |pool|
      fibers = []
      first = pool.run { fibers << Fiber.current }
      second = pool.run { (fibers << Fiber.current) && sleep(0.005) && :unharmed }
      refute first.raise(KeyError)
      refute first.cancel
      assert_equal :unharmed, second.value
      assert_same(*fibers)
    end
  end

  def test_a_second_exception_comes_after_the_first
    with_pool do |pool|
      ticket = pool.run do
        sleep
      rescue KeyError
        begin
          sleep
        rescue IndexError
          :both
        end
      end
      assert ticket.raise(KeyError)
      assert ticket.raise(IndexError)
      refute ticket.raise(ArgumentError)
      assert_equal :both, ticket.value
    end
  end

  def test_an_exception_on_its_way_ends_with_the_job
    with_pool(max: 1) do |pool|
      first = pool.run do
        sleep
      rescue KeyError
        :ended
      end
      assert first.raise(KeyError)
      assert first.raise(IndexError)
      second = pool.run { sleep(0.01) and :unharmed }
      assert_equal %i[ended unharmed], [first.value, second.value]
    end
  end

  def test_raise_from_within
    with_pool do |pool|
      ticket = nil
      ticket = pool.run { sleep(0.001) and ticket.raise(KeyError, "own") }
      assert_raises(KeyError) { ticket.value }
    end
  end

  def test_cancel_ends_the_job_quietly
    unwound = []
    text = capture_stderr do
      with_scheduler do
        pool = Abaca::FiberPool.new
        ticket = pool.run do
          sleep
        rescue StandardError
          flunk
        ensure
          sleep 0.001
          unwound << true
        end
        assert ticket.cancel
        assert ticket.cancel, "the first one is on its way"
        assert_nil ticket.value
        assert_predicate ticket, :cancelled?
        refute ticket.cancel
        assert_equal({ live: 1, idle: 1 }, pool.stats.slice(:live, :idle))
      end
    end
    assert_equal [true], unwound
    assert_empty text
  end

  def test_a_cancelled_job_that_waits_never_starts
    with_pool(max: 1) do |pool|
      started = []
      first = pool.run { sleep 0.002 }
      second = pool.run { started << 2 }
      third = pool.run { started << 3 }
      assert second.cancel
      assert_equal :cancelled, second.status
      assert_equal 1, pool.stats[:waiting]
      failing = pool.run { started << 4 }
      assert failing.raise(KeyError)
      [first, third].each(&:wait)
      assert_equal [3], started
      assert_raises(KeyError) { failing.value }
    end
  end

  def test_a_job_may_refuse_to_be_cancelled
    with_pool do |pool|
      ticket = pool.run do
        sleep
      rescue Abaca::FiberPool::Cancelled
        :stays
      end
      ticket.cancel
      assert_equal :stays, ticket.value
      refute_predicate ticket, :cancelled?
    end
  end

  def test_it_is_a_cancellation_like_a_request_s
    assert_equal [Abaca::Cancelled] * 4,
                 [Abaca::FiberPool::Cancelled, Abaca::DeadlineExceeded, Abaca::ClientGone,
                  Abaca::Shutdown].map(&:superclass)
    with_pool do |pool|
      ended_by = nil
      ticket = pool.run do
        sleep
      rescue Abaca::Cancelled => e
        ended_by = e.class
        raise
      end
      ticket.cancel
      assert_nil ticket.value
      assert_predicate ticket, :cancelled?
      assert_equal Abaca::FiberPool::Cancelled, ended_by
    end
  end

  def test_cancel_from_within
    with_pool do |pool|
      ticket = nil
      ticket = pool.run { sleep(0.001) and ticket.cancel and flunk }
      assert_nil ticket.value
      assert_predicate ticket, :cancelled?
    end
  end

  def test_errors_of_the_process_are_raised_by_the_loop
    [SystemExit, Interrupt, NoMemoryError].each do |error|
      with_pool do |pool|
        ticket = pool.run { sleep(0.001) and raise(error) }
        assert_raises(error) { Fiber.scheduler.run }
        assert_equal :failed, ticket.status
        assert_raises(error) { ticket.value }
        assert_raises(error) { pool.run { raise error } }
        assert_equal :on, pool.run { :on }.value
      end
    end
  end

  # The interrupt arrives at whatever fiber runs: one that is being woken, or one in a job.
  def test_thread_raise_and_kill_end_the_thread
    [lambda(&:kill), ->(thread) { thread.raise(Interrupt) }].each do |blow|
      begun = false
      thread = Thread.new do
        Thread.current.report_on_exception = false
        Fiber.set_scheduler(Abaca::Scheduler.new)
        pool = Abaca::FiberPool.new
        pool.run { begun = true } while true # rubocop:disable Style/InfiniteLoop
      rescue Interrupt
        :interrupted
      end
      assert(eventually { begun })
      nothing_for(0.05)
      blow.call(thread)
      assert thread.join(DEADLINE), "it ends"
    end
  end

  # What Fiber#raise runs from the root fiber must not be taken for what runs now.
  def test_the_root_fiber_waits_after_it_has_raised_in_a_fiber
    with_pool do |pool|
      fiber = nil
      first = pool.run do
        (fiber = Fiber.current) && sleep
      rescue KeyError
        :raised
      end
      fiber.raise(KeyError)
      assert_equal %i[raised next], [first.value, pool.run { sleep(0.001) and :next }.value]
    end
  end

  def test_a_killed_fiber_ends_its_ticket
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    with_pool(max: 1) do |pool|
      fiber = nil
      ticket = pool.run { (fiber = Fiber.current) && sleep }
      waiting = pool.run { :next }
      fiber.kill
      assert_nil ticket.value
      assert_equal :killed, ticket.status
      assert_equal :next, waiting.value
      assert_equal 1, pool.stats[:retired][:killed]
    end
  end

  def test_storage_is_inherited_like_a_fiber_s
    skip "fiber storage is of Ruby 3.2" unless Fiber.respond_to?(:[])
    with_pool(max: 1) do |pool|
      Fiber[:mine] = 1
      ticket = pool.run { Fiber[:mine].tap { Fiber[:mine] = 2 } }
      assert_equal [1, 1], [ticket.value, Fiber[:mine]]
      Fiber[:mine] = nil
      assert_nil pool.run { Fiber[:mine] }.value
    end
  end

  def test_run_needs_a_scheduler_and_a_block
    pool = Abaca::FiberPool.new
    assert_match(/set_scheduler/, assert_raises(RuntimeError) { pool.run { flunk } }.message)
    assert_match(/set_scheduler/, assert_raises(RuntimeError) { pool.trim }.message)
    # Who was refused is not its owner.
    in_fiber { assert_equal 7, pool.run { 7 }.value }
    with_pool do |other|
      assert_raises(LocalJumpError) { other.run }
      assert_raises(ArgumentError) { other.run(1) { flunk } }
    end
    assert_raises(NoMethodError) { Abaca::FiberPool::Ticket.new }
    assert_raises(TypeError) { Abaca::FiberPool::Ticket.allocate }
  end

  def test_other_threads_are_told_so
    with_pool do |pool|
      ticket = pool.run { sleep 0.05 }
      other = Thread.new do
        Thread.current.report_on_exception = false
        calls = [[:wait], [:value], [:cancel], [:raise, "x"]]
        errors = calls.map { |call| assert_raises(ThreadError) { ticket.send(*call) } }
        errors << assert_raises(ThreadError) { pool.run { flunk } }
        [errors.map(&:message).uniq, ticket.alive?, ticket.status, ticket.cancelled?]
      end
      assert_equal [["the pool belongs to another thread"], true, :running, false], other.value
    end
  end

  def test_a_closed_scheduler_ends_what_it_had
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new
      ticket = pool.run { sleep }
      Fiber.schedule { raise Interrupt }
    rescue Interrupt
      begin
        Fiber.schedule { raise Interrupt }
      rescue Interrupt
        nil
      end
      first = Fiber.scheduler
      Fiber.schedule { ticket.cancel }
      first.close
      Fiber.set_scheduler(Abaca::Scheduler.new)
      [ticket.status, pool.run { 5 }.value]
    end
    assert_equal [:cancelled, 5], thread.value
  end

  def test_after_a_fork_the_pool_says_so
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/fiber_pool"
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(warm: 2)
      ticket = pool.run { sleep 0.2 }
      pid = fork do
        begin
          pool.run { nil }
        rescue RuntimeError => e
          puts e.message
        end
        Fiber.set_scheduler(nil)
        Fiber.set_scheduler(Abaca::Scheduler.new)
        [-> { pool.run { nil } }, -> { ticket.wait }, -> { pool.trim }].each do |call|
          call.call
        rescue RuntimeError => e
          puts e.message
        end
        puts Abaca::FiberPool.new.run { :mine }.value
        $stdout.flush
        exit!
      end
      Process.wait(pid)
      ticket.wait
      puts ticket.status
    RUBY
    assert_predicate status, :success?, err
    lines = out.lines(chomp: true)
    assert_equal 4, lines.grep(/parent process/).size, out
    assert_equal %w[mine done], lines.last(2)
  end

  def test_under_gc_stress
    with_pool(within: 120, max: 3) do |pool| # 7 s in company
      GC.stress = true
      tickets = Array.new(6) { |i| pool.run { sleep(0.001 * (i % 2)) and i } }
      values = tickets.map(&:value)
      late = pool.run { sleep }
      late.raise(KeyError)
      late.raise(IndexError)
      late.wait
      GC.stress = false
      assert_equal [0, 1, 2, 3, 4, 5], values
    ensure
      GC.stress = false
    end
  end

  # A ticket may be moved when its job is over, and must not be before.
  def test_with_a_compacted_heap
    skip "this Ruby cannot compact" unless GC.respond_to?(:compact)
    with_pool(max: 3) do |pool|
      expected = Array.new(8) { |i| "value #{i}" }
      tickets = Array.new(8) { |i| pool.run { sleep(0.002) and "value #{i}" } }
      first = pool.run { tickets.last.value }
      2.times do
        begin
          GC.compact
        rescue NotImplementedError
          skip "this platform cannot compact"
        end
        assert_equal expected, tickets.map(&:value)
      end
      assert_equal "value 7", first.value
    end
  end

  # In a process of its own, where no other test has left any.
  def test_tickets_that_are_not_kept_are_collected
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/fiber_pool"
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(max: 10)
      5.times do
        200.times { |i| pool.run { sleep(0.0001 * (i % 3)) } }
        Fiber.scheduler.run
      end
      3.times { GC.start }
      puts ObjectSpace.each_object(Abaca::FiberPool::Ticket).count
    RUBY
    assert_predicate status, :success?, err
    assert_operator Integer(out), :<, 50
  end

  # A block of its own for each job is a Proc and what it has captured; the third is the ticket.
  def test_a_job_allocates_three_objects
    with_pool do |pool|
      done = 0
      job = -> { done += 1 }
      assert_equal 3, objects_for_each(1000) { |n| n.times { pool.run { done += 1 } } }
      assert_equal 1, objects_for_each(1000) { |n| n.times { pool.run(&job) } }
      assert_equal 4000, done
    end
  end

  # For lack of memory, say; what has not begun is not counted.
  def test_a_fiber_that_cannot_be_made
    with_pool do |pool|
      pool.define_singleton_method(:make_fiber) { raise KeyError, "no fiber" }
      assert_raises(KeyError) { pool.run { flunk } }
      assert_equal({ live: 0, idle: 0, busy: 0, created: 0 }, pool.stats.slice(:live, :idle, :busy, :created))
      pool.singleton_class.remove_method(:make_fiber)
      assert_equal 1, pool.run { 1 }.value
    end
  end

  def test_a_new_fiber_costs_no_reuse
    with_pool do |pool|
      3.times { pool.run { sleep 0.001 } }
      assert_equal({ created: 3, reused: 0, high_water: 3 }, pool.stats.slice(:created, :reused, :high_water))
      Fiber.scheduler.run
    end
  end

  def test_a_first_job_may_be_started_anywhere
    [-> { Fiber.new { pool_in_use }.resume }, -> { Enumerator.new { |y| y << pool_in_use }.next },
     -> { Fiber.schedule { pool_in_use } }].each do |place|
      with_scheduler do
        @seen = nil
        place.call
        Fiber.scheduler.run
        assert_equal [1, 2, 3], @seen
      end
    end
  end

  private

  def pool_in_use
    pool = Abaca::FiberPool.new
    tickets = [pool.run { 1 }, pool.run { sleep(0.001) and 2 }, pool.run { 3 }]
    @seen = tickets.map(&:value)
  end
end
