# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/fiber_pool_case"

# FiberPool#post: jobs without a ticket, and what becomes of their exceptions.
class PostTest < Minitest::Test
  include FiberPoolCase

  # What answers to `call`, and is no Proc.
  Callable = Struct.new(:seen) do
    def call = seen << :called
  end

  def test_a_job_starts_at_once_and_goes_on_beside_its_caller
    with_pool do |pool|
      seen = []
      assert_nil(pool.post(lambda {
        seen << Fiber.current.blocking?
        sleep 0.001
        seen << :end
      }))
      assert_equal [false], seen
      Fiber.scheduler.run
      assert_equal [false, :end], seen
    end
  end

  def test_from_a_fiber_and_from_another_job
    with_pool do |pool|
      seen = []
      inner = -> { sleep(0.001) and seen << :inner }
      Fiber.schedule { seen << [:fiber, pool.post(inner)] }
      pool.post(-> { seen << [:job, pool.post(inner)] })
      Fiber.scheduler.run
      assert_equal [[:fiber, nil], [:job, nil], :inner, :inner], seen
      assert_equal({ busy: 0, waiting: 0 }, pool.stats.slice(:busy, :waiting))
    end
  end

  def test_what_can_be_posted
    with_pool do |pool|
      seen = []
      pool.post(proc { |*arguments| seen << arguments })
      pool.post(Callable.new(seen))
      pool.post(Callable.new(seen).method(:call))
      assert_equal [[], :called, :called], seen
      [nil, 1, :puts].each do |job|
        assert_equal "post: #{job.class} has no call", assert_raises(TypeError) { pool.post(job) }.message
      end
      assert_equal({ live: 1, busy: 0 }, pool.stats.slice(:live, :busy))
    end
  end

  def test_it_allocates_nothing
    with_pool do |pool|
      done = 0
      job = -> { done += 1 }
      assert_equal 0, objects_for_each(1000) { |n| n.times { pool.post(job) } }
      assert_equal 2000, done
    end
  end

  def test_jobs_beyond_max_wait_in_order_with_tickets
    with_pool(max: 2) do |pool|
      seen = []
      5.times { |i| i.odd? ? pool.run { sleep(0.001) and seen << i } : pool.post(-> { sleep(0.001) and seen << i }) }
      assert_equal 3, pool.stats[:waiting]
      Fiber.scheduler.run
      assert_equal [0, 1, 2, 3, 4], seen
      assert_equal({ live: 2, waiting: 0 }, pool.stats.slice(:live, :waiting))
    end
  end

  def test_on_full_raise
    with_pool(max: 1, on_full: :raise) do |pool|
      pool.post(-> { sleep 0.001 })
      assert_raises(Abaca::FiberPool::Full) { pool.post(-> { flunk }) }
      Fiber.scheduler.run
      assert_nil pool.post(-> {})
    end
  end

  def test_nothing_is_left_for_the_next_job
    with_pool do |pool|
      pool.post(-> { Thread.current[:mine] = 1 })
      pool.post(-> { (Thread.current[:mine] = 1) && raise(KeyError) })
      seen = [:none]
      pool.post(-> { seen << Thread.current[:mine] })
      assert_equal [:none, nil], seen
      assert_equal 1, pool.stats[:created]
    end
  end

  def test_storage_is_inherited_like_a_fiber_s
    skip "fiber storage is of Ruby 3.2" unless Fiber.respond_to?(:[])
    with_pool(max: 1) do |pool|
      seen = []
      Fiber[:mine] = 1
      pool.post(-> { sleep(0.001) and seen << Fiber[:mine] })
      pool.post(-> { seen << Fiber[:mine] }) # it waits for the fiber
      Fiber.scheduler.run
      Fiber[:mine] = nil
      pool.post(-> { seen << Fiber[:mine] })
      assert_equal [1, 1, nil], seen
    end
  end

  # --- exceptions ---

  def test_an_exception_is_reported_like_a_thread_s
    with_pool do |pool|
      Thread.current.report_on_exception = true
      text = capture_stderr { pool.post(-> { raise KeyError, "of a job" }) }
      assert_match(/of a job \(KeyError\)/, text)
      Thread.current.report_on_exception = false
      assert_empty(capture_stderr { pool.post(-> { raise KeyError, "of a job" }) })
      assert_equal({ live: 1, created: 1 }, pool.stats.slice(:live, :created))
    end
  end

  def test_on_error_is_told_in_place_of_the_report
    told = []
    with_pool(max: 1, on_error: ->(error) { told << [error.class, error.message, $ERROR_INFO] }) do |pool|
      Thread.current.report_on_exception = true
      text = capture_stderr do
        pool.post(-> { raise KeyError, "at once" })
        pool.post(-> { sleep(0.001) and raise SecurityError, "later" })
        pool.post(-> { raise NotImplementedError, "after a wait for the fiber" })
        Fiber.scheduler.run
      end
      assert_empty text
      assert_equal [[KeyError, "at once", nil], [SecurityError, "later", nil],
                    [NotImplementedError, "after a wait for the fiber", nil]], told
      assert_equal 0, pool.stats[:retired].values.sum
    end
  end

  # Their tickets have them.
  def test_on_error_is_not_told_of_what_tickets_tell
    told = []
    with_pool(on_error: told.method(:<<)) do |pool|
      assert_raises(KeyError) { pool.run { raise KeyError }.value }
      ticket = pool.run { sleep }
      ticket.cancel
      assert_nil ticket.value
      assert_empty told
    end
  end

  # It runs on the job's fiber: what it leaves there is taken off as well.
  def test_on_error_may_wait
    told = []
    told_of = lambda do |error|
      Thread.current[:mine] = 1
      sleep 0.001
      told << error.message
    end
    with_pool(on_error: told_of) do |pool|
      pool.post(-> { raise "first" })
      assert_equal 1, pool.stats[:busy]
      Fiber.scheduler.run
      assert_equal ["first"], told
      pool.post(-> { told << Thread.current[:mine] })
      assert_equal ["first", nil], told
      assert_equal 1, pool.stats[:created]
    end
  end

  def test_what_on_error_raises_is_reported
    with_pool(on_error: ->(_) { raise IOError, "of on_error" }) do |pool|
      Thread.current.report_on_exception = true
      assert_match(/of on_error \(IOError\)/, capture_stderr { pool.post(-> { raise KeyError }) })
      assert_equal 1, pool.stats[:idle]
    end
  end

  def test_errors_of_the_process_are_raised_by_the_loop
    [SystemExit, Interrupt, NoMemoryError].each do |error|
      told = []
      with_pool(on_error: told.method(:<<)) do |pool|
        pool.post(-> { sleep(0.001) and raise(error) })
        assert_raises(error) { Fiber.scheduler.run }
        assert_raises(error) { pool.post(-> { raise error }) }
        assert_empty told
      end
    end
  end

  def test_a_killed_job_is_not_reported
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    told = []
    with_pool(on_error: told.method(:<<)) do |pool|
      fiber = nil
      pool.post(-> { (fiber = Fiber.current) && sleep })
      fiber.kill
      assert_equal 1, pool.stats[:retired][:killed]
      assert_empty told
    end
  end

  # The first job's fiber ends with it, and there is no other for the second.
  def test_a_job_that_waits_for_a_fiber_that_cannot_be_made
    told = []
    with_pool(max: 1, retire_after: 1, on_error: told.method(:<<)) do |pool|
      pool.post(-> { sleep 0.001 })
      pool.post(-> { flunk })
      pool.define_singleton_method(:make_fiber) { raise FiberError, "no fiber" }
      Fiber.scheduler.run
      assert_equal [FiberError], told.map(&:class)
      assert_raises(FiberError) { pool.post(-> { flunk }) }
      assert_equal({ live: 0, waiting: 0 }, pool.stats.slice(:live, :waiting))
    end
  end

  def test_what_on_error_must_be
    error = assert_raises(TypeError) { Abaca::FiberPool.new(on_error: :log) }
    assert_equal "on_error must have a call, not :log", error.message
  end

  # --- whose it is ---

  def test_it_needs_a_scheduler_and_the_pool_s_thread
    error = assert_raises(RuntimeError) { Abaca::FiberPool.new.post(-> {}) }
    assert_match(/Fiber.set_scheduler/, error.message)
    with_pool do |pool|
      pool.post(-> {})
      assert_raises(ThreadError) { Thread.new { pool.post(-> {}) }.tap { |one| one.report_on_exception = false }.value }
    end
  end

  def test_under_gc_stress
    with_pool(max: 2, on_error: ->(error) { error.message.upcase }) do |pool|
      done = 0
      GC.stress = true
      6.times { |i| pool.post(-> { sleep(0.0001) and i == 3 ? raise(i.to_s) : done += 1 }) }
      Fiber.scheduler.run
      GC.stress = false
      assert_equal 5, done
    ensure
      GC.stress = false
    end
  end
end
