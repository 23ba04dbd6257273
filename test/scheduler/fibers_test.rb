# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "support/server_case"

# Scheduler#fibers tells of each kind of wait.
class FibersTest < Minitest::Test
  include SchedulerCase

  # What a fiber that runs the block tells of itself while it waits; `free` ends the wait.
  def waiting(free, &wait)
    entry = nil
    with_scheduler do |scheduler|
      fiber = Fiber.schedule(&wait)
      Fiber.schedule do
        entry = scheduler.fibers.find { |candidate| candidate[:fiber].equal?(fiber) }
        free.call(fiber)
      end
    end
    entry
  end

  def wake(fiber) = Fiber.scheduler.unblock(:wake, fiber)

  def test_a_descriptor
    reader, writer = IO.pipe
    entry = waiting(->(_) { writer.write("x") }) { reader.read(1) }
    assert_equal [:io, reader, reader.fileno, [:readable]], entry.values_at(:waiting_for, :object, :fd, :events)
    refute entry.key?(:until)
    limited = lambda do
      Fiber.scheduler.io_wait(reader, IO::READABLE | IO::PRIORITY, 60)
    end
    entry = assert_until(60) { waiting(->(_) { writer.write("x") }, &limited) }
    assert_equal %i[readable priority], entry[:events]
  end

  # Returns what the block gives: an entry for a wait with a time limit of `seconds`.
  def assert_until(seconds)
    before = SchedulerCase.clock
    entry = yield
    after = SchedulerCase.clock
    assert_includes (before + seconds)..(after + seconds), entry[:until]
    assert_includes before..after, entry[:since]
    entry
  end

  def test_several_descriptors
    reader, writer = IO.pipe
    entry = waiting(->(_) { writer.write("x") }) { Fiber.scheduler.io_select([reader], [], nil) }
    assert_equal [:io, [[reader], [], []]], entry.values_at(:waiting_for, :object)
    refute entry.key?(:fd)
  end

  def test_sleep
    entry = waiting(method(:wake)) { sleep }
    assert_equal :sleep, entry[:waiting_for]
    refute entry.key?(:until)
    assert_until(7) { waiting(method(:wake)) { sleep 7 } }
  end

  def test_a_mutex_and_who_holds_it
    mutex = Mutex.new
    holder = entry = nil
    with_scheduler do |scheduler|
      holder = Fiber.schedule { mutex.synchronize { sleep 0.01 } }
      waiter = Fiber.schedule { mutex.synchronize { nil } }
      entry = scheduler.fibers.find { |candidate| candidate[:fiber].equal?(waiter) }
    end
    assert_equal [:mutex, mutex], entry.values_at(:waiting_for, :object)
    assert_same holder, entry[:owner]
  end

  def test_a_mutex_that_another_thread_holds
    mutex = Mutex.new
    locked = Queue.new
    let_go = Queue.new
    thread = Thread.new { mutex.synchronize { (locked << 1) && let_go.pop } }
    locked.pop
    entry = waiting(->(_) { let_go << 1 }) { mutex.synchronize { nil } }
    thread.join
    assert_equal :mutex, entry[:waiting_for]
    assert entry.key?(:owner)
    assert_nil entry[:owner]
  end

  def test_a_queue
    queue = Queue.new
    entry = waiting(->(_) { queue << 1 }) { queue.pop }
    assert_equal [:queue, queue], entry.values_at(:waiting_for, :object)
    sized = SizedQueue.new(1) << 1
    entry = waiting(->(_) { sized.pop }) { sized << 2 }
    assert_equal [:queue, sized], entry.values_at(:waiting_for, :object)
  end

  def test_a_thread
    ends = Queue.new
    thread = Thread.new { ends.pop }
    entry = waiting(->(_) { ends << 1 }) { thread.join }
    assert_equal [:thread, thread], entry.values_at(:waiting_for, :object)
  end

  def test_a_blocker_of_one_s_own
    entry = waiting(method(:wake)) { Fiber.scheduler.block(:mine, nil) }
    assert_equal %i[block mine], entry.values_at(:waiting_for, :object)
  end

  def test_a_process
    reader, writer = IO.pipe
    pid = spawn("read line; exit", in: reader)
    entry = waiting(->(_) { writer.puts }) { Process.wait(pid) }
    assert_equal [:process, pid], entry.values_at(:waiting_for, :object)
    spawn("read line; exit", in: reader)
    entry = waiting(->(_) { writer.puts }) { Process.wait(-1) }
    assert_equal [:process, -1], entry.values_at(:waiting_for, :object)
  end

  def test_a_name
    entry = waiting(->(_) {}) { Fiber.scheduler.address_resolve("localhost") }
    assert_equal [:dns, "localhost"], entry.values_at(:waiting_for, :object)
  end

  def test_a_fiber_that_is_ready
    entries = nil
    with_scheduler do |scheduler|
      fiber = Fiber.schedule { sleep }
      Fiber.schedule do
        scheduler.unblock(:sleep, fiber)
        entries = scheduler.fibers
      end
    end
    assert_equal(%i[ready], entries.map { |entry| entry[:waiting_for] })
  end

  def test_the_backtrace
    reader, writer = IO.pipe
    entry = waiting(->(_) { writer.close }) { read_something(reader) }
    assert_match(/read_something/, entry[:backtrace].join("\n"))
    assert_match(/#{File.basename(__FILE__)}/, entry[:backtrace].join("\n"))
  end

  def read_something(reader) = reader.gets

  def test_a_fiber_that_another_one_resumed
    outer = inner = entry = nil
    with_scheduler do |scheduler|
      outer = Fiber.schedule { (inner = Fiber.new { sleep 0.01 }).resume }
      entry = scheduler.fibers.find { |candidate| candidate[:waiting_for] == :sleep }
    end
    assert_equal [inner, outer, :sleep], entry.values_at(:fiber, :resumed_by, :waiting_for)
  end

  def test_many
    list = nil
    with_scheduler do |scheduler|
      2000.times { Fiber.schedule { sleep 0.2 } }
      GC.stress = false
      list = scheduler.fibers
    end
    assert_equal 2000, list.size
    assert_equal(%i[sleep], list.map { |entry| entry[:waiting_for] }.uniq)
  end

  def test_nothing_is_known_of_a_closed_scheduler
    assert_equal [], Abaca::Scheduler.new.tap(&:close).fibers
  end
end

# The same for the fibers of an HTTP server.
class ServerFibersTest < Minitest::Test
  include ServerCase

  def kinds(running, expected)
    found = nil
    eventually { (found = ask(running).body.split).include?(expected) }
    found
  end

  def app
    big = "x" * (1 << 20)
    lambda do |env|
      case env["PATH_INFO"]
      when "/body" then [200, {}, [env["rack.input"].read]]
      when "/drain" then [200, {}, ->(stream) { 64.times { stream.write(big) } && stream.close }]
      else [200, {}, [Fiber.scheduler.fibers.map { |entry| entry[:waiting_for] }.join(" ")]]
      end
    end
  end

  def test_a_request_body
    running = serve(app, lint: false)
    client = connect(running)
    client.write("POST /body HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n" \
                 "Expect: 100-continue\r\n\r\n")
    assert_equal 100, client.read_interim.status
    assert_includes kinds(running, "request_body"), "request_body"
    client.write("12")
    assert_equal "12", client.read.body
  end

  def test_a_response_that_is_not_read
    running = serve(app, lint: false)
    client = connect(running)
    client.write("GET /drain HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert_includes kinds(running, "response_drain"), "response_drain"
  end
end
