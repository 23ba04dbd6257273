# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"

# Every kind of wait while the collector runs at each allocation, and while it moves objects.
class SchedulerCollectionTest < Minitest::Test
  include SchedulerCase

  WORK = <<~'RUBY'
    require "abaca/scheduler"
    require "abaca/fiber_pool"
    require "socket"

    def every_wait(scheduler, done)
      reader, writer = IO.pipe
      near, far = UNIXSocket.pair
      mutex = Mutex.new
      variable = ConditionVariable.new
      ready = false
      Fiber.schedule { done << [:read, reader.gets] }
      Fiber.schedule { sleep 0.001; writer.puts("line") }
      Fiber.schedule { done << [:select, scheduler.io_select([near], nil, nil, 60).first.size] }
      Fiber.schedule { sleep 0.001; far.write("x") }
      Fiber.schedule { mutex.synchronize { variable.wait(mutex) until ready }; done << [:condition, 1] }
      Fiber.schedule { sleep 0.001; mutex.synchronize { ready = true; variable.broadcast } }
      Fiber.schedule { scheduler.timeout_after(0.001, KeyError) { sleep } rescue done << [:timeout, $!.message] }
      Fiber.schedule { done << [:file, File.read("/proc/self/stat").size > 9] }
      Fiber.schedule { done << [:thread, Thread.new { 1 }.value] }
      Fiber.schedule { done << [:child, Process.wait2(spawn("exit 3")).last.exitstatus] }
      Fiber.schedule { done << [:name, scheduler.address_resolve("127.0.0.1")] }
      Fiber.schedule { done << [:listed, scheduler.fibers.size > 5] }
      Abaca::FiberPool.new(max: 2).run { sleep 0.001; done << [:pool, 1] }
    end

    ANSWERS = [[:read, "line\n"], [:select, 1], [:condition, 1], [:timeout, "execution expired"], [:file, true],
               [:thread, 1], [:child, 3], [:name, ["127.0.0.1"]], [:listed, true], [:pool, 1]].sort_by(&:first)

    def round
      done = []
      every_wait(Fiber.scheduler, done)
      yield if block_given?
      Fiber.scheduler.run
      abort "wrong: #{done}" unless done.sort_by(&:first) == ANSWERS
    end
  RUBY

  def assert_rounds(code)
    status, out, err = run_ruby(WORK + <<~RUBY, within: 120)
      Thread.new do
        Thread.current.report_on_exception = true
        Fiber.set_scheduler(Abaca::Scheduler.new)
        round
        #{code}
        round
      end.join
      puts "done"
    RUBY
    assert_predicate status, :success?, err
    assert_equal "done\n", out
  end

  def test_a_collection_at_each_allocation
    assert_rounds("GC.stress = true; round; GC.stress = false")
  end

  def test_a_heap_that_is_compacted_by_itself
    skip "no compaction here" unless GC.respond_to?(:auto_compact=)
    assert_rounds(<<~RUBY)
      GC.start # or Ruby 3.1 moves what it has not pinned
      begin; GC.auto_compact = true; rescue NotImplementedError; end
      5.times { round { GC.start } }
    RUBY
  end

  # Ruby moves every object that it can, and looks for references to where they were.
  def test_that_no_reference_is_left_behind
    skip "no compaction here" unless GC.respond_to?(:verify_compaction_references)
    assert_rounds("round { GC.verify_compaction_references(toward: :empty) rescue NotImplementedError }")
  end
end
