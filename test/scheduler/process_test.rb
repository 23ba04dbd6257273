# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "socket"

class ProcessTest < Minitest::Test
  include SchedulerCase

  def test_children_are_waited_for_at_the_same_time
    statuses = []
    reader, writer = IO.pipe
    with_scheduler do
      3.times do |i|
        Fiber.schedule do
          pid = spawn("read line; exit #{i}", in: reader)
          assert_equal pid, Process.wait(pid)
          statuses << Process.last_status.exitstatus
        end
      end
      Fiber.schedule { writer.write("\n" * 3) } # all of them are waited for
    end
    assert_equal [0, 1, 2], statuses.sort
  ensure
    [reader, writer].each(&:close)
  end

  def test_system_backticks_and_popen
    in_fiber do
      assert_equal "hi\n", `echo hi`
      assert_predicate Process.last_status, :success?
      assert_equal false, system("exit 3")
      assert_equal 3, Process.last_status.exitstatus
      text = IO.popen("cat", "r+") do |io|
        io.puts("through")
        io.close_write
        io.read
      end
      assert_equal "through\n", text
    end
  end

  def test_any_child_and_no_child
    in_fiber do
      pid = spawn("exit 4")
      other = :waits
      Fiber.schedule { sleep(0.001) && other = :ran }
      assert_equal pid, Process.wait(-1)
      assert_equal 4, Process.last_status.exitstatus
      assert_raises(Errno::ECHILD) { Process.wait(-1) }
      assert_raises(Errno::ECHILD) { Process.wait(pid) }
      assert(eventually { other == :ran })
    end
  end

  def test_a_child_that_two_fibers_wait_for
    results = []
    with_scheduler do
      pid = spawn("sleep 0.05")
      2.times do
        Fiber.schedule do
          results << Process.wait(pid)
        rescue Errno::ECHILD
          results << :gone
        end
      end
    end
    assert_equal 1, results.count(:gone)
    assert_equal 2, results.size
  end

  def test_no_descriptor_is_left
    in_fiber do
      Process.wait(spawn("true"))
      before = Dir.children("/proc/self/fd").size
      20.times { Process.wait(spawn("true")) }
      assert_operator Dir.children("/proc/self/fd").size, :<=, before + 1
    end
  end

  def test_names
    need_localhost
    in_fiber do |scheduler|
      addresses = scheduler.address_resolve("localhost")
      refute_empty addresses & ["127.0.0.1", "::1"]
      assert_nil scheduler.address_resolve("no-such-name.invalid")
      assert_equal ["127.0.0.1"], scheduler.address_resolve("127.0.0.1")
      assert_equal ["fe80::1%lo"], scheduler.address_resolve("fe80::1%lo")
      assert_raises(TypeError) { scheduler.address_resolve(nil) }
      assert_raises(ArgumentError) { scheduler.address_resolve("a\0b") }
    end
  end

  def test_many_names_at_once
    need_localhost
    found = []
    with_scheduler { 50.times { Fiber.schedule { found << Fiber.scheduler.address_resolve("localhost") } } }
    assert_equal 50, found.compact.size
  end

  def test_a_lookup_that_is_given_up
    need_localhost
    in_fiber do |scheduler|
      20.times do
        scheduler.timeout_after(0.00001) { scheduler.address_resolve("localhost") }
      rescue Timeout::Error
        nil
      end
      refute_nil scheduler.address_resolve("localhost")
    end
  end

  def test_connect_by_name
    need_localhost
    server = TCPServer.new("127.0.0.1", 0)
    in_fiber do
      Fiber.schedule { server.accept.close }
      assert_equal "", TCPSocket.new("localhost", server.local_address.ip_port).read
    end
  ensure
    server&.close
  end

  # Ruby before 4.0 leaves the parent's scheduler in place; its hooks then block the thread.
  def test_a_forked_child_waits_without_the_parents_scheduler
    reader, writer = IO.pipe
    parents = nil
    with_scheduler do
      Fiber.schedule { parents = reader.gets }
      Fiber.schedule do
        pid = fork do
          own, own_writer = IO.pipe
          Thread.new { sleep(0.01) && own_writer.puts("own") }
          queue = Queue.new
          Thread.new { sleep(0.01) && (queue << 1) }
          sleep 0.005
          exit!(own.gets == "own\n" && queue.pop == 1 ? 5 : 1)
        end
        Process.wait(pid)
        assert_equal 5, Process.last_status.exitstatus
        writer.puts("parent")
      end
    end
    assert_equal "parent\n", parents
  end

  # The value of the block in a child of a fiber, which still has the parent's scheduler there, or what it raised.
  def in_child_of_fiber
    skip "Ruby 4.0 takes it away" if RUBY_VERSION >= "4.0"
    in_fiber do |scheduler|
      reader, writer = IO.pipe
      pid = fork do
        value = begin
          yield scheduler
        rescue StandardError => e
          e
        end
        Marshal.dump(value, writer)
        writer.close
        exit!(0)
      end
      writer.close
      value = Marshal.load(reader) # rubocop:disable Security/MarshalLoad -- it is our own child's
      Process.wait(pid)
      reader.close
      value.is_a?(Exception) ? raise(value) : value
    end
  end

  def test_a_forked_child_has_time_limits
    assert_equal [60, :done], in_child_of_fiber { Timeout.timeout(60) { |seconds| [seconds, :done] } }
    assert_equal :left, in_child_of_fiber { Timeout.timeout(60) { break :left } }
    assert_equal :own, in_child_of_fiber { catch(:way) { Timeout.timeout(60) { throw :way, :own } } }
    error = assert_raises(Timeout::Error) { in_child_of_fiber { Timeout.timeout(0.001) { sleep } } }
    assert_equal "execution expired", error.message
    error = assert_raises(IOError) { in_child_of_fiber { Timeout.timeout(0.001, IOError, "slow") { Queue.new.pop } } }
    assert_equal "slow", error.message
    error = assert_raises(IOError) do
      in_child_of_fiber { |scheduler| scheduler.timeout_after(0.001, IOError.new("mine")) { sleep } }
    end
    assert_equal "mine", error.message
    assert_raises(ArgumentError) { in_child_of_fiber { |scheduler| scheduler.timeout_after(-1) { nil } } }
    assert_raises(KeyError) { in_child_of_fiber { Timeout.timeout(60) { {}.fetch(:none) } } }
  end

  def test_a_forked_child_leaves_no_timer_behind
    left = in_child_of_fiber do
      Timeout.timeout(60) { nil }
      begin
        Timeout.timeout(0.001) { sleep }
      rescue Timeout::Error
        nil
      end
      Thread.list.size
    end
    assert_equal 1, left
  end

  def test_a_forked_child_looks_names_up
    need_localhost
    found = in_child_of_fiber { |scheduler| scheduler.address_resolve("localhost") }
    refute_empty found & ["127.0.0.1", "::1"]
    assert_equal(["127.0.0.1"], in_child_of_fiber { |scheduler| scheduler.address_resolve("127.0.0.1") })
    assert_nil(in_child_of_fiber { |scheduler| scheduler.address_resolve("no-such-name.invalid") })
    server = TCPServer.new("127.0.0.1", 0)
    port = server.local_address.ip_port
    answer = in_child_of_fiber do
      Thread.new { server.accept.tap { |peer| peer.write("hello") }.close }
      TCPSocket.new("localhost", port).read
    end
    assert_equal "hello", answer
  ensure
    server&.close
  end

  def test_a_forked_child_selects
    ready = in_child_of_fiber do |scheduler|
      (reader, writer), (other, _other_writer) = Array.new(2) { IO.pipe } # a writer that is collected ends its pipe
      none = scheduler.io_select([reader], nil, nil, 0.001)
      Thread.new { writer.write("x") }
      [none, scheduler.io_select([other, reader])[0] == [reader], IO.select([other, reader])[0] == [reader]]
    end
    assert_equal [nil, true, true], ready
    assert_raises(TypeError) { in_child_of_fiber { |scheduler| scheduler.io_select([1]) } }
  end

  def test_a_forked_child_waits_for_its_own_children
    codes = in_child_of_fiber do
      system("exit 3")
      pid = spawn("exit 4")
      [Process.last_status.exitstatus, Process.wait2(pid).last.exitstatus, Thread.list.size]
    end
    assert_equal [3, 4, 1], codes
    limited = in_child_of_fiber do
      reader, writer = IO.pipe
      pid = spawn("read line && exit 5", in: reader)
      begin
        Timeout.timeout(0.001) { Process.wait(pid) }
      rescue Timeout::Error
        writer.puts
        Process.wait2(pid).last.exitstatus
      end
    end
    assert_equal 5, limited
  end

  def test_a_forked_child_makes_a_scheduler_of_its_own
    reader, writer = IO.pipe
    parents = nil
    with_scheduler do
      Fiber.schedule { parents = reader.gets }
      Fiber.schedule do
        pid = fork do
          old = Fiber.scheduler
          Fiber.set_scheduler(Abaca::Scheduler.new)
          order = []
          Fiber.schedule do
            sleep 0.02 while order.empty?
            order << 2
          end
          Fiber.schedule { sleep(0.01) && (order << 1) }
          Fiber.scheduler.run
          exit!(order == [1, 2] && (old.nil? || old.closed?) ? 6 : 1)
        end
        Process.wait(pid)
        assert_equal 6, Process.last_status.exitstatus
        writer.puts("parent")
      end
    end
    assert_equal "parent\n", parents
  end

  def test_the_parents_scheduler_starts_no_fiber_in_a_child
    skip "Ruby 4.0 takes it away" if RUBY_VERSION >= "4.0"
    in_fiber do
      pid = fork do
        Fiber.schedule { exit!(1) }
      rescue RuntimeError
        exit!(7)
      end
      Process.wait(pid)
      assert_equal 7, Process.last_status.exitstatus
    end
  end
end
