# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "English"
require "socket"
require "tempfile"
require "timeout"
require "zlib"

# Which hooks each version of Ruby calls, from what, and with how many arguments. What they do is in the
# other tests of this folder; these are about their callers.
class HooksTest < Minitest::Test
  include SchedulerCase

  ALL = %i[block unblock kernel_sleep io_wait io_read io_write io_pread io_pwrite io_select io_close timeout_after
           address_resolve process_wait blocking_operation_wait fiber_interrupt yield].freeze
  # Ruby 3.3 and 3.4 call it without the GVL, where no method in Ruby may run.
  SILENT = RUBY_VERSION.between?("3.3", "4") ? %i[io_pwrite] : []

  # Records the calls: [hook, number of arguments], and on which fiber.
  class Listening < SchedulerCase::Recorder
    def calls = (@calls ||= [])
    def fibers_asked = (@fibers_asked ||= {}.compare_by_identity)
    def options = (@options ||= [])

    (ALL - SILENT).each do |hook|
      define_method(hook) do |*arguments, &block|
        calls << [hook, arguments.size]
        fibers_asked[Fiber.current] = hook unless hook == :unblock
        super(*arguments, &block)
      end
    end

    def fiber(**given, &block)
      options << given
      super
    end
  end

  # Runs the block in a fiber, and what is left. Returns the calls of those hooks.
  def heard(*hooks, &block)
    calls = error = nil
    thread = Thread.new do
      Fiber.set_scheduler(scheduler = Listening.new)
      Fiber.schedule(&block)
      scheduler.run
      calls = scheduler.calls.select { |call| hooks.include?(call.first) }
      error = scheduler.errors.first
    end
    assert thread.join(DEADLINE), "it ends in time"
    raise error if error

    calls
  end

  # What holds for this Ruby, of what each version has changed.
  def since(changes) = changes.select { |version, _| version <= RUBY_VERSION }.values.last

  # The calls of a hook that Ruby makes since a version.
  def from(version, *calls) = version <= RUBY_VERSION ? calls : []

  def pipe
    reader, writer = IO.pipe
    yield reader, writer
  ensure
    [reader, writer].each { |io| io.close unless io.closed? }
  end

  def file_of(text)
    Tempfile.create("abaca") do |file|
      file.write(text)
      file.flush
      yield file.tap(&:rewind)
    end
  end

  def test_every_hook_is_there
    scheduler = Abaca::Scheduler.new(worker_pool: true)
    [*ALL, :fiber, :close, :scheduler_close, :run, :closed?].each { |hook| assert_respond_to scheduler, hook }
    # Ruby raises in fibers by itself.
    refute_respond_to scheduler, :fiber_raise
  ensure
    scheduler.close
  end

  def test_sleep
    calls = heard(:kernel_sleep, :block) { sleep(0) && sleep(0.001) && Thread.pass }
    assert_equal [[:kernel_sleep, 1]] * 2, calls
    calls = heard(:kernel_sleep) do
      fiber = Fiber.current
      Fiber.schedule { sleep(0) && Fiber.scheduler.unblock(:sleep, fiber) }
      sleep
    end
    assert_equal [[:kernel_sleep, 1], [:kernel_sleep, 0]], calls
  end

  def test_locks_and_queues
    calls = heard(:block, :unblock) do
      mutex = Mutex.new
      Fiber.schedule { mutex.synchronize { sleep 0.001 } }
      mutex.synchronize { nil }
    end
    assert_equal [[:block, 2], [:unblock, 2]], calls
    calls = heard(:block, :unblock) do
      queue = Queue.new
      Fiber.schedule { (queue << 1) && queue.close }
      assert_equal [1, nil], [queue.pop, queue.pop]
      Mutex.new.synchronize { nil }
    end
    assert_empty calls, "what need not wait does not ask"
    calls = heard(:block, :unblock) do
      queue = Queue.new
      Fiber.schedule { sleep(0.001) && (queue << 1) }
      queue.pop
    end
    assert_equal [[:block, 2], [:unblock, 2]], calls
  end

  def test_a_mutex_and_a_condition_that_sleep
    assert_equal [:kernel_sleep], heard(:kernel_sleep) { Mutex.new.tap(&:lock).sleep(0.001) }.map(&:first)
    calls = heard(:kernel_sleep) do
      mutex = Mutex.new.tap(&:lock)
      ConditionVariable.new.wait(mutex, 0.001)
    end
    assert_equal [:kernel_sleep], calls.map(&:first)
  end

  def test_threads
    ends = Queue.new
    calls = heard(:block, :unblock) do
      Fiber.schedule { sleep(0.01) && (ends << true) }
      Thread.new { ends.pop }.join
    end
    assert_equal %i[block unblock], calls.map(&:first)
  end

  def test_reading_and_writing
    arguments = since("3.1" => 3, "3.2" => 4)
    pipe do |reader, writer|
      calls = heard(:io_read, :io_write) { writer.syswrite("x") && reader.sysread(1) }
      assert_equal [[:io_write, arguments], [:io_read, arguments]], calls
      calls = heard(:io_read, :io_wait) do
        Fiber.schedule { sleep(0.001) && writer.write("x") }
        assert_equal "x", reader.read(1)
      end
      assert_includes calls, [:io_wait, 3]
      assert_includes calls, [:io_read, arguments]
    end
  end

  def test_waiting_for_an_io
    pipe do |reader, writer|
      calls = heard(:io_wait) { writer.wait_writable && reader.wait_readable(0) && flunk }
      assert_equal [[:io_wait, 3]] * 2, calls
    end
  end

  def test_positions
    file_of("text") do |file|
      calls = heard(:io_pread) { assert_equal "ex", file.pread(2, 1) }
      assert_equal from("3.3", [:io_pread, 5]), calls
      place = RUBY_VERSION < "3.2" ? [2, 1] : [1, 2]
      calls = heard(:io_pread) { assert_equal 2, IO::Buffer.new(2).pread(file, *place) }
      assert_equal [[:io_pread, since("3.1" => 4, "3.2" => 5)]], calls
      assert_equal 0, file.pos
    end
  end

  def test_selections
    pipe do |reader, writer|
      lists = [[reader], [writer], [reader], 0]
      calls = heard(:io_select) do
        writer.write("x")
        4.times { |count| assert_equal [reader], IO.select(*lists[..count]).first }
      end
      assert_equal from("3.2", [:io_select, 1], [:io_select, 2], [:io_select, 3], [:io_select, 4]), calls
    end
  end

  # The hook gets a number: the IO is closed already.
  def test_closing
    pipe { |reader, _| assert_equal from("4.0", [:io_close, 1]), heard(:io_close) { reader.close } }
  end

  def test_time_limits
    assert_equal [[:timeout_after, 3]], heard(:timeout_after) { Timeout.timeout(1) { nil } }
    assert_empty heard(:timeout_after) { Timeout.timeout(nil) { Timeout.timeout(0) { nil } } }
  end

  def test_names
    need_localhost
    calls = heard(:address_resolve) do
      Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM)
      Addrinfo.getaddrinfo("127.0.0.1", 80, nil, :STREAM)
      Addrinfo.getaddrinfo("::1", 80, nil, :STREAM)
    end
    assert_equal [[:address_resolve, 1]], calls
  end

  # Once for each wait: the hook's own call of Process::Status.wait does not come back to it.
  def test_children
    reader, writer = IO.pipe
    calls = heard(:process_wait) do
      pid = spawn("read line; exit", in: reader)
      assert_nil Process.wait(pid, Process::WNOHANG)
      Fiber.schedule { writer.puts }
      assert_equal pid, Process.wait(pid)
      pid = spawn("exit 3")
      assert_equal pid, Process.wait(-1)
      assert_equal "x", `printf x`
      assert system("true")
    end
    assert_equal [[:process_wait, 2]] * 4, calls
  end

  def test_blocking_operations
    calls = heard(:blocking_operation_wait) { Zlib::Deflate.deflate("x" * 100_000) }
    assert_equal from("3.4", [:blocking_operation_wait, 1]), calls.uniq
  end

  def test_fibers
    options = nil
    with_scheduler { nil }
    Thread.new do
      Fiber.set_scheduler(scheduler = Listening.new)
      given = RUBY_VERSION >= "3.2" ? { blocking: false, storage: { key: 1 } } : { blocking: false }
      fiber = Fiber.schedule(**given) { sleep 0.001 }
      assert_instance_of Fiber, fiber
      options = [scheduler.options, [given]]
    end.join(DEADLINE)
    assert_equal(*options)
  end

  # Only non-blocking fibers ask; others wait as they do without a scheduler.
  def test_blocking_fibers_call_no_hook
    calls = heard(*ALL) do
      Fiber.new(blocking: true) do
        sleep 0.001
        Process.wait(spawn("true"))
        assert_equal 1, Thread.new { 1 }.value
      end.resume
    end
    assert_empty calls
  end

  # The fiber that the loop runs on never waits: no other could continue it.
  def test_the_loop_waits_for_nothing
    asked = root = nil
    thread = Thread.new do
      root = Fiber.current
      Fiber.set_scheduler(scheduler = Listening.new)
      every_wait
      scheduler.run
      asked = scheduler.fibers_asked
    end
    assert thread.join(DEADLINE), "it ends in time"
    assert_operator asked.size, :>=, 6
    refute_includes asked, root
    assert_empty asked.keys.select(&:blocking?)
  end

  private

  def every_wait
    reader, writer = IO.pipe
    mutex = Mutex.new
    queue = Queue.new
    Fiber.schedule { mutex.synchronize { reader.read(2) } }
    Fiber.schedule { mutex.synchronize { writer.syswrite(queue.pop) } }
    Fiber.schedule { sleep(0.001) && writer.write("xy") && (queue << "z") }
    Fiber.schedule { Process.wait(spawn("true")) }
    Fiber.schedule { Addrinfo.getaddrinfo("localhost", 80) }
    Fiber.schedule { Timeout.timeout(0.001) { sleep } rescue Timeout::Error } # rubocop:disable Style/RescueModifier
    Fiber.schedule { Thread.new { Thread.pass }.join }
  end
end
