# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/test_build"
require "support/scheduler_case"

# The kernel has no more stacks for fibers.
class StacksTest < Minitest::Test
  include SchedulerCase

  HEADER = <<~RUBY
    require "abaca/scheduler"
    require "support/memory_maps"
    Thread.report_on_exception = false
  RUBY

  # Ruby itself forgets then that the thread has a scheduler.
  def test_those_that_are_refused_do_no_harm
    skip "a sanitizer needs the address space" if TestBuild.sanitized?
    assert_equal %w[true Abaca::Scheduler true Abaca::Scheduler 64], output_of(<<~RUBY)
      Fiber.set_scheduler(Abaca::Scheduler.new)
      MemoryMaps.take_all_but(1_000)
      queue = Thread::Queue.new
      park = -> { Fiber.schedule { queue.pop } while true }
      seen = -> { begin; park.call; rescue FiberError; true; end }
      puts seen.call, Fiber.scheduler.class
      Fiber.scheduler.run if queue.close
      queue = Thread::Queue.new
      GC.start
      Fiber.schedule { puts(seen.call, Fiber.current_scheduler.class) || queue.close }
      Fiber.scheduler.run
      GC.start
      slept = 0
      64.times { Fiber.schedule { (sleep(0.01) && slept += 1) if Fiber.current_scheduler } }
      Fiber.scheduler.run
      puts slept
    RUBY
  end

  # Those that have ended keep their stacks until they are collected, and this heap hardly needs that.
  def test_the_dead_make_room
    *done, collections = output_of(<<~RUBY)
      Fiber.set_scheduler(Abaca::Scheduler.new)
      MemoryMaps.take_all_but(2_000)
      count = GC.count
      done = 0
      3_000.times { Fiber.schedule { done += 1 } }
      puts done
      Fiber.schedule { 3_000.times { Fiber.schedule { done += 1 } } }
      Fiber.scheduler.run
      puts done, GC.count - count
    RUBY
    assert_equal %w[3000 6000], done
    assert_operator Integer(collections), :<, 40, "they were collected anyhow"
  end

  # A trap handler runs on whatever fiber it finds, also the one that makes the first switch, and may wait there.
  def test_handlers_that_wait_while_fibers_are_made
    assert_equal %w[true true], output_of(<<~RUBY, thread: false, env: {})
      Fiber.set_scheduler(Abaca::Scheduler.new)
      begun = done = handled = 0
      trap(:USR1) { sleep(0.0001) && handled += 1 }
      parent = Process.pid
      sender = fork { 3_000.times { Process.kill(:USR1, parent) && sleep(0.0002) } }
      ended = false
      Thread.new { Process.wait(sender) && ended = true }
      until ended
        200.times { (begun += 1) && Fiber.schedule { (begun % 3 == 0 ? sleep(0.0001) : true) && done += 1 } }
        Fiber.scheduler.run
      end
      Fiber.scheduler.run
      puts done == begun, handled > 100
    RUBY
  end

  private

  def output_of(code, thread: true, env: LARGE_HEAP)
    code = "Thread.new do\n#{code}end.join" if thread
    status, out, err = run_ruby("#{HEADER}#{code}", within: 60, env: env)
    assert_predicate status, :success?, err
    out.split
  end
end
