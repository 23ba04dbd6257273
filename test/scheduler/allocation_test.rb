# frozen_string_literal: true

require "test_helper"
require "support/scheduler_case"

# The hooks make no Ruby object; Ruby makes an IO::Buffer for each io_read and io_write.
class SchedulerAllocationTest < Minitest::Test
  include SchedulerCase

  def objects(count = 300, &block)
    count.times(&block)
    GC.disable
    before = GC.stat(:total_allocated_objects)
    count.times(&block)
    (GC.stat(:total_allocated_objects) - before).fdiv(count)
  ensure
    GC.enable
  end

  def assert_objects(expected, name, count = 300, &work)
    assert_in_delta expected, objects(count, &work), 0.05, name
  end

  def test_sleeping_and_waking
    mutex = Mutex.new
    there = Queue.new
    back = Queue.new
    with_scheduler do |scheduler|
      Fiber.schedule { back << 1 while there.pop }
      Fiber.schedule do
        assert_objects(0, "sleep 0") { sleep 0 }
        assert_objects(0, "sleep", 50) { sleep 0.0001 }
        assert_objects(0, "block", 50) { scheduler.block(:x, 0.0001) }
        assert_objects(0, "queue") { (there << 1) && back.pop }
        assert_objects(0, "mutex") { mutex.synchronize { sleep 0 } }
        there << nil
      end
    end
  end

  def test_descriptors
    reader, writer = IO.pipe
    File.open(__FILE__) do |file|
      in_fiber do |scheduler|
        text = +""
        assert_objects(0, "ready") { scheduler.io_wait(writer, IO::WRITABLE, 1) }
        assert_objects(0, "parked", 50) { scheduler.io_wait(reader, IO::READABLE, 0.0001) }
        assert_objects(1, "a file's IO::Buffer") { file.sysseek(0) && file.sysread(10, text) }
      end
    end
  end
end
