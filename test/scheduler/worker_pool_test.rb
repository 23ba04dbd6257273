# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "zlib"

# Blocking operations of extensions, and children without a pidfd.
class WorkerPoolTest < Minitest::Test
  include SchedulerCase

  TEXT = Random.new(1).bytes(1 << 20).freeze

  def test_zlib_with_and_without_threads
    [false, true, 1, 3].each do |workers|
      results = []
      with_scheduler(worker_pool: workers) do
        5.times { Fiber.schedule { results << (Zlib::Inflate.inflate(Zlib::Deflate.deflate(TEXT)) == TEXT) } }
      end
      assert_equal [true] * 5, results, workers.inspect
    end
  end

  def test_other_fibers_run_meanwhile
    skip "Ruby 3.4 is the first to hand operations over" if RUBY_VERSION < "3.4"
    ran = most = 0
    kinds = []
    with_scheduler(worker_pool: true) do |scheduler|
      limit = SchedulerCase.clock + 15
      done = false
      Fiber.schedule do
        # How often it runs during one operation; the machine may stand still for as long as one takes.
        until most > 5 || SchedulerCase.clock > limit
          before = ran
          Zlib::Deflate.deflate(TEXT * 4, 9)
          most = [most, ran - before].max
        end
        done = true
      end
      Fiber.schedule do
        until done
          kinds |= scheduler.fibers.map { |entry| entry[:waiting_for] }
          ran += 1
          sleep 0.001
        end
      end
    end
    assert_operator most, :>, 5
    assert_includes kinds, :blocking_operation
  end

  def test_a_timeout_waits_for_the_operation
    with_scheduler(worker_pool: 2) do
      Fiber.schedule do
        3.times do
          ended = false
          assert_raises(Timeout::Error) do
            Timeout.timeout(0.002) { Zlib::Deflate.deflate(TEXT * 2, 9) && (ended = true) && sleep(1) }
          end
          assert ended
        end
      end
    end
  end

  # A subclass that overrides the hook, with `super`.
  class Overriding < SchedulerCase::Recorder
    def operations = (@operations ||= [])

    def blocking_operation_wait(operation)
      operations << operation
      super
    end
  end

  def with_overriding(**options)
    Thread.new do
      Fiber.set_scheduler(scheduler = Overriding.new(**options))
      Fiber.schedule { yield scheduler }
      scheduler.run
      raise scheduler.errors.first unless scheduler.errors.empty?
    end.value
  end

  # What an operation raises comes out of the hook.
  def test_errors
    [false, Fiber.respond_to?(:blocking)].uniq.each do |workers|
      with_overriding(worker_pool: workers) do |scheduler|
        assert_equal true, scheduler.blocking_operation_wait(-> { 1 })
        assert_raises(KeyError) { scheduler.blocking_operation_wait(-> { raise KeyError }) }
      end
    end
  end

  def test_an_overridden_hook_is_called
    [false, true].each do |workers|
      with_overriding(worker_pool: workers) do |scheduler|
        assert_equal TEXT, Zlib::Inflate.inflate(Zlib::Deflate.deflate(TEXT))
        assert_equal RUBY_VERSION >= "3.4", scheduler.operations.any?
      end
    end
  end

  # The threads are the parent's: all of them are counted, and there are none.
  def test_a_forked_child_runs_operations_itself
    skip "Ruby 4.0 takes the scheduler away" if RUBY_VERSION >= "4.0"
    statuses = []
    with_scheduler(worker_pool: 1) do
      Fiber.schedule do
        Zlib::Deflate.deflate(TEXT)
        pid = fork { exit!(Zlib::Inflate.inflate(Zlib::Deflate.deflate(TEXT)) == TEXT ? 5 : 1) }
        statuses << Process.wait2(pid).last.exitstatus
      end
    end
    assert_equal [5], statuses
  end

  # Ruby would take the operation for done, and what waits in it would block the thread.
  def test_no_hook_without_a_worker_pool
    with_scheduler { |scheduler| refute_respond_to scheduler, :blocking_operation_wait }
    %i[worker_pool offload].each do |name|
      with_scheduler(name => true) { |scheduler| assert_respond_to scheduler, :blocking_operation_wait }
    end
  end

  # The threads alone, for a caller that polls.
  def worker_pool(most)
    skip "Ruby has no way to wait for a job for a while" unless Fiber.respond_to?(:blocking)
    scheduler = Object.new
    def scheduler.unblock(_job, _fiber) = nil
    Abaca::Scheduler.const_get(:WorkerPool).new(scheduler, most)
  end

  # A queue that tells when a wait was in vain, before the waiter knows.
  class Telling < Thread::Queue
    attr_writer :in_vain

    def pop(*, **)
      super.tap { |job| @in_vain.call unless job }
    end
  end

  def test_an_operation_that_comes_when_the_last_thread_ends
    threads = worker_pool(1)
    idle = threads.class.const_get(:IDLE_SECONDS)
    redefine_idle_seconds(threads, 0.05)
    second = nil
    jobs = Telling.new
    jobs.in_vain = lambda do
      second ||= Thread.new { threads.run(-> { :ran }) { sleep 0.001 } }.tap { assert(eventually { !jobs.empty? }) }
    end
    threads.instance_variable_set(:@jobs, jobs)
    assert threads.run(-> {}) { sleep 0.001 }
    assert(eventually { second })
    assert second.join(10), "no thread runs it"
    assert(eventually { threads.instance_variable_get(:@threads).zero? })
  ensure
    second&.kill
    redefine_idle_seconds(threads, idle) if idle
  end

  def redefine_idle_seconds(threads, seconds)
    threads.class.send(:remove_const, :IDLE_SECONDS)
    threads.class.const_set(:IDLE_SECONDS, seconds)
  end

  # In the place of the class.
  module NoThread
    def self.new = raise(ThreadError, "no more")
  end

  def test_no_thread_is_to_be_had
    threads = worker_pool(1)
    threads.class.const_set(:Thread, NoThread)
    assert_raises(ThreadError) { threads.run(-> {}) { sleep 0.001 } }
    threads.class.send(:remove_const, :Thread)
    assert threads.run(-> {}) { sleep 0.001 }
  ensure
    threads.class.send(:remove_const, :Thread) if threads&.class&.const_defined?(:Thread, false)
  end

  def test_no_fiber_leaves_a_running_operation
    threads = worker_pool(1)
    runs = over = false
    operation = lambda do
      runs = true
      sleep 0.3
      over = true
    end
    fiber = Thread.new do
      threads.run(operation) { sleep 0.001 }
    rescue IOError
      over
    end
    fiber.report_on_exception = false
    assert(eventually { runs })
    5.times { fiber.raise(IOError) && sleep(0.02) }
    assert fiber.join(20) && over
  rescue IOError
    assert over # the next one came to the thread's end
  end

  def test_bad_arguments
    assert_raises(TypeError) { Abaca::Scheduler.new(worker_pool: "2") }
    assert_raises(ArgumentError) { Abaca::Scheduler.new(worker_pool: -1) }
    assert_predicate Abaca::Scheduler.new(worker_pool: nil).tap(&:close), :closed?
  end

  def test_more_waits_for_any_child_than_threads
    statuses = []
    took = seconds do
      with_scheduler do
        12.times { |i| spawn("sleep 0.#{i % 3}; exit #{i}") }
        12.times { Fiber.schedule { Process.wait(-1) && (statuses << Process.last_status.exitstatus) } }
      end
    end
    assert_equal (0...12).to_a, statuses.sort
    assert_operator took, :<, 19
  end

  def test_groups_of_children
    with_scheduler do
      groups = Array.new(6) { |i| [spawn("sleep 0.0#{i + 1}; exit #{i}", pgroup: true), i] }
      groups.reverse_each do |pid, i|
        Fiber.schedule do
          assert_equal pid, Process.wait(-pid)
          assert_equal i, Process.last_status.exitstatus
          assert_raises(Errno::ECHILD) { Process.wait(-pid) }
        end
      end
    end
  end

  def test_a_child_that_stops
    in_fiber do
      pid = spawn("kill -STOP $$; exit 3")
      Process.wait(pid, Process::WUNTRACED)
      assert_predicate Process.last_status, :stopped?
      Process.kill(:CONT, pid)
      Process.wait(pid)
      assert_equal 3, Process.last_status.exitstatus
    end
  end

  def test_a_wait_for_any_child_that_is_given_up
    reader, writer = IO.pipe
    in_fiber do
      pid = spawn("read line; exit 5", in: reader)
      6.times { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { Process.wait(-1) } } }
      writer.puts
      assert_equal pid, Process.wait(-1)
    end
  ensure
    [reader, writer].each(&:close)
  end
end
