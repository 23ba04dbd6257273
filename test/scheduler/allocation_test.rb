# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "support/server_case"
require "support/object_counts"
require "abaca/fiber_pool"
require "socket"

# The ways to wait, each as often as it is to be counted.
module FreeWaits
  # Runs the block for each way to wait that makes no object: [name, how often, the work].
  def each_free_wait(scheduler, &block)
    sleeps(scheduler, &block)
    queues(&block)
    locks(&block)
    descriptors(scheduler, &block)
  end

  private

  def sleeps(scheduler)
    thread = Thread.new { nil }.join
    yield "sleep 0", 300, proc { sleep 0 }
    yield "sleep", 50, proc { sleep 0.0001 }
    yield "block", 50, proc { scheduler.block(:x, 0.0001) }
    yield "yield", 300, proc { scheduler.yield }
    yield "join", 50, proc { thread.join(60) && thread.value }
    yield "timeout_after", 300, proc { scheduler.timeout_after(60) { sleep 0 } }
  end

  # Both ends wait: the producer of a full SizedQueue, the consumer of an empty Queue.
  def queues
    there = Queue.new
    back = SizedQueue.new(1)
    Fiber.schedule { 3.times { back << 1 } while there.pop }
    yield "queues", 300, proc { (there << 1) && 3.times { back.pop } }
    there << nil
    empty = Queue.new
    yield "pop(timeout:)", 50, proc { empty.pop(timeout: 0.0001) } if RUBY_VERSION >= "3.2"
  end

  def locks
    mutex = Mutex.new
    variable = ConditionVariable.new
    mine = true
    done = false
    Fiber.schedule do
      mutex.synchronize { (variable.wait(mutex) while mine) || ((mine = true) && variable.signal) until done }
    end
    yield "mutex", 300, proc { mutex.synchronize { sleep 0 } }
    hand_over = proc { (mine = false) || variable.signal || (variable.wait(mutex) until mine) }
    yield "condition", 300, proc { mutex.synchronize(&hand_over) }
    yield "condition with a time limit", 50, proc { mutex.synchronize { variable.wait(mutex, 0.0001) } }
    done = true
    mine = false
    variable.signal
  end

  def descriptors(scheduler)
    reader, writer = IO.pipe
    yield "io_wait, ready", 300, proc { scheduler.io_wait(writer, IO::WRITABLE, 60) }
    yield "io_wait, asked", 300, proc { scheduler.io_wait(reader, IO::READABLE, 0) }
    yield "io_wait, parked", 50, proc { scheduler.io_wait(reader, IO::READABLE, 0.0001) }
  ensure
    [reader, writer].each(&:close)
  end
end

# The hooks make no Ruby object; Ruby makes an IO::Buffer for each io_read and io_write.
class SchedulerAllocationTest < Minitest::Test
  include SchedulerCase
  include ObjectCounts
  include FreeWaits

  def assert_free_waits(scheduler)
    each_free_wait(scheduler) { |name, count, work| assert_in_delta 0, objects(count, &work), 0.05, name }
  end

  def test_waits_of_a_scheduled_fiber
    in_fiber { |scheduler| assert_free_waits(scheduler) }
  end

  def test_waits_of_a_pooled_fiber
    with_scheduler do |scheduler|
      Abaca::FiberPool.new.run { assert_free_waits(scheduler) }.value
    end
  end

  # What the work makes, by type.
  def types(count = 100, &block)
    before = {}
    after = {}
    count.times(&block)
    GC.disable
    ObjectSpace.count_objects(before)
    count.times(&block)
    ObjectSpace.count_objects(after)
    (after.keys - %i[FREE TOTAL]).to_h { |type| [type, ((after[type] - before.fetch(type, 0)) / count.to_f).round] }
                                 .reject { |_, made| made.zero? }
  ensure
    GC.enable
  end

  # An IO::Buffer each, and the String that Ruby copies what is written to.
  def test_reads_and_writes
    near, far = UNIXSocket.pair
    text = +""
    in_fiber do
      made = types { near.syswrite(text) && far.read_nonblock(9, text, exception: false) }
      assert_equal [], made.keys - %i[T_STRING T_DATA]
      assert_operator made.fetch(:T_DATA, 0), :<=, 1
      made = types { near.write_nonblock("x") && far.sysread(9, text) }
      assert_equal({ T_DATA: 1 }, made.slice(:T_DATA))
      assert_equal [], made.keys - %i[T_STRING T_DATA]
    end
  ensure
    [near, far].each(&:close)
  end

  def test_a_read_that_waits
    there, back = Array.new(2) { UNIXSocket.pair }
    with_scheduler do
      Fiber.schedule { 200.times { |i| there[1].readpartial(1) && back[0].syswrite(i.to_s) } }
      Fiber.schedule do
        text = +""
        # Each write and each attempt to read makes a buffer: one that fails, one that succeeds.
        made = types { there[0].syswrite("x") && back[1].readpartial(9, text) }
        assert_equal [], made.keys - %i[T_STRING T_DATA]
        assert_operator made.fetch(:T_DATA), :<=, 6
      end
    end
  ensure
    (there + back).each(&:close)
  end

  def test_files
    File.open(__FILE__) do |file|
      in_fiber do
        text = +""
        assert_in_delta 1, objects { file.sysseek(0) && file.sysread(10, text) }, 0.05, "an IO::Buffer"
      end
    end
  end

  # A scheduler whose hook does nothing: what lib/timeout makes by itself.
  class Untimed < SchedulerCase::Recorder
    def timeout_after(seconds, _error = nil, _message = nil) = yield(seconds)
  end

  def test_timeouts
    own, base = [Recorder, Untimed].map do |klass|
      made = nil
      Thread.new do
        Fiber.set_scheduler(klass.new)
        Fiber.schedule { made = objects { Timeout.timeout(60) { sleep 0 } } }
      end.join(DEADLINE)
      made
    end
    assert_in_delta base, own, 0.05
  end

  # Copies of the lists, which may change meanwhile, and the result if there is one.
  def test_selections
    reader, writer = IO.pipe
    readers = [reader]
    in_fiber do |scheduler|
      assert_operator objects(50) { scheduler.io_select(readers, nil, nil, 0.0001) }, :<=, 5.05
      writer.write("x")
      assert_operator objects { scheduler.io_select(readers, nil, nil, 1) }, :<=, 9.05
    end
  end
end

# The same on the fiber of a request.
class ServerAllocationTest < Minitest::Test
  include ServerCase
  include ObjectCounts
  include FreeWaits

  def test_waits_of_a_request
    made = Queue.new
    running = serve(lambda do |_env|
      each_free_wait(Fiber.scheduler) { |name, count, work| made << [name, objects(count, &work)] }
      [200, {}, []]
    end, lint: false)
    assert_equal 200, ask(running).status
    refute_empty made
    made.size.times { made.pop.then { |name, count| assert_in_delta 0, count, 0.05, name } }
  end
end
