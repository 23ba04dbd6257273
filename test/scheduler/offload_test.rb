# frozen_string_literal: true

require "test_helper"
require "support/scheduler_case"
require "zlib"

# Blocking operations of extensions, and children without a pidfd.
class OffloadTest < Minitest::Test
  include SchedulerCase

  TEXT = Random.new(1).bytes(1 << 20).freeze

  def test_zlib_with_and_without_threads
    [false, true, 1, 3].each do |offload|
      results = []
      with_scheduler(offload: offload) do
        5.times { Fiber.schedule { results << (Zlib::Inflate.inflate(Zlib::Deflate.deflate(TEXT)) == TEXT) } }
      end
      assert_equal [true] * 5, results, offload.inspect
    end
  end

  def test_other_fibers_run_meanwhile
    skip "Ruby 3.4 is the first to hand operations over" if RUBY_VERSION < "3.4"
    ran = most = 0
    kinds = []
    with_scheduler(offload: true) do |scheduler|
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
    assert_includes kinds, :offload
  end

  def test_a_timeout_waits_for_the_operation
    with_scheduler(offload: 2) do
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
    [false, Fiber.respond_to?(:blocking)].uniq.each do |offload|
      with_overriding(offload: offload) do |scheduler|
        assert_equal true, scheduler.blocking_operation_wait(-> { 1 })
        assert_raises(KeyError) { scheduler.blocking_operation_wait(-> { raise KeyError }) }
      end
    end
  end

  def test_an_overridden_hook_is_called
    [false, true].each do |offload|
      with_overriding(offload: offload) do |scheduler|
        assert_equal TEXT, Zlib::Inflate.inflate(Zlib::Deflate.deflate(TEXT))
        assert_equal RUBY_VERSION >= "3.4", scheduler.operations.any?
      end
    end
  end

  # Ruby would take the operation for done, and what waits in it would block the thread.
  def test_who_does_not_hand_over_has_no_hook
    with_scheduler { |scheduler| refute_respond_to scheduler, :blocking_operation_wait }
    with_scheduler(offload: true) { |scheduler| assert_respond_to scheduler, :blocking_operation_wait }
  end

  def test_bad_arguments
    assert_raises(TypeError) { Abaca::Scheduler.new(offload: "2") }
    assert_raises(ArgumentError) { Abaca::Scheduler.new(offload: -1) }
    assert_predicate Abaca::Scheduler.new(offload: nil).tap(&:close), :closed?
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
