# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "pty"
require "socket"
require "timeout"

# What the scheduler remembers of a descriptor between two waits, and what may happen to the descriptor
# meanwhile. A hook that has met EAGAIN lets the next wait rely on the registration that there is; it is
# renewed when the loop has nothing to do, or after a while when it always has.
class ReadinessTest < Minitest::Test
  include SchedulerCase

  READABLE = IO::READABLE

  # Runs the block as a fiber: alone, and beside one that keeps the loop from ever being idle.
  def idle_and_busy(&block)
    in_fiber(&block)
    with_scheduler do |scheduler|
      done = false
      Fiber.schedule { sleep(0) until done }
      Fiber.schedule do
        block.call(scheduler)
      ensure
        done = true
      end
    end
  end

  # The pipe's ends, after a wait on the reader and with nothing left in it.
  def known_pipe
    reader, writer = IO.pipe
    Fiber.schedule { writer.write("a") }
    assert_equal "a", reader.readpartial(1)
    Fiber.schedule { writer.write("b") }
    assert_equal READABLE, Fiber.scheduler.io_wait(reader, READABLE, 5)
    assert_equal "b", reader.readpartial(1)
    [reader, writer]
  end

  # The same, and a read has just found it empty.
  def exhausted_pipe
    reader, writer = known_pipe
    exhaust(reader)
    [reader, writer]
  end

  # What IO#readpartial does before it waits; Ruby 3.1 calls the hook only from other methods.
  def exhaust(io)
    assert_equal(-Errno::EAGAIN::Errno, Fiber.scheduler.io_read(io, IO::Buffer.new(1), 0))
  end

  # The descriptors that some epoll set of this process has.
  def watched
    Dir["/proc/self/fdinfo/*"].flat_map do |path|
      File.read(path).scan(/^tfd:\s*(\d+)/).flatten.map(&:to_i)
    rescue Errno::ENOENT
      []
    end
  end

  def test_what_is_there_before_the_first_wait
    idle_and_busy do |scheduler|
      reader, writer = IO.pipe
      writer.write("x")
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
    end
  end

  def test_what_a_read_has_left
    idle_and_busy do |scheduler|
      reader, writer = known_pipe
      Fiber.schedule { writer.write("xyz") }
      "xyz".each_char do |char|
        assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
        assert_equal char, reader.readpartial(1)
      end
      assert_equal false, scheduler.io_wait(reader, READABLE, 0.001)
    end
  end

  def test_what_came_between_the_read_and_the_wait
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      writer.write("x")
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
    end
  end

  def test_what_came_between_waits
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      writer.write("x")
      nothing_for(0.005) # but the loop takes notice
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
    end
  end

  def test_a_selection
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      Thread.new { sleep(0.005) && writer.write("x") }
      assert_equal [[reader], [], []], scheduler.io_select([reader], [], [], 5)
    end
  end

  def test_an_end_that_came_between_waits
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      writer.close
      nothing_for(0.005)
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
      assert_raises(EOFError) { reader.readpartial(1) }
    end
  end

  def test_a_wait_after_one_that_timed_out
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      assert_equal false, scheduler.io_wait(reader, READABLE, 0.002)
      exhaust(reader)
      Fiber.schedule { sleep(0.002) && writer.write("x") }
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
    end
  end

  def test_no_wait_ends_without_a_reason
    idle_and_busy do |scheduler|
      reader, = exhausted_pipe
      assert_equal false, scheduler.io_wait(reader, READABLE, 0.05)
      assert_equal false, scheduler.io_wait(reader, READABLE, 0.02)
    end
  end

  # The number and the object stay, the file is another one.
  def test_a_reader_that_is_opened_anew
    idle_and_busy do |scheduler|
      reader, = exhausted_pipe
      other, writer = IO.pipe
      writer.write("x")
      number = reader.fileno
      reader.reopen(other)
      assert_equal number, reader.fileno
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
      assert_equal "x", reader.readpartial(1)
    end
  end

  # The old file lives on in a duplicate; what comes there is not for the new one.
  def test_a_number_whose_old_file_lives_on
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      number = reader.fileno
      copy = reader.dup
      reader.close
      other, other_writer = opened_as(number) { IO.pipe }
      exhaust(other)
      writer.write("old")
      assert_equal false, scheduler.io_wait(other, READABLE, 0.03)
      Fiber.schedule { other_writer.write("new") }
      assert_equal READABLE, scheduler.io_wait(other, READABLE, 5)
      assert_equal "new", other.readpartial(9)
      assert_equal "old", copy.readpartial(9)
    end
  end

  def test_two_objects_for_one_descriptor
    idle_and_busy do |scheduler|
      reader, writer = exhausted_pipe
      second = IO.for_fd(reader.fileno, autoclose: false)
      [reader, second, reader].each do |io|
        exhaust(io)
        Fiber.schedule { writer.write("x") }
        assert_equal READABLE, scheduler.io_wait(io, READABLE, 5)
        assert_equal "x", io.readpartial(1)
      end
    end
  end

  def test_closing_an_io_that_is_waited_for
    idle_and_busy do
      reader, = exhausted_pipe
      Fiber.schedule { reader.close }
      assert_raises(IOError) { reader.readpartial(1) }
    end
  end

  def test_a_number_that_gets_another_file_while_it_is_waited_for
    idle_and_busy do |scheduler|
      reader, = exhausted_pipe
      number = reader.fileno
      Fiber.schedule do
        reader.close
        other, writer = opened_as(number) { IO.pipe }
        writer.write("x")
        assert_equal READABLE, scheduler.io_wait(other, READABLE, 5)
      end
      assert_raises(IOError) { reader.readpartial(1) }
    end
  end

  # The scheduler hears nothing of it at all; whoever waits shall not wait for ever.
  def test_a_descriptor_that_is_closed_behind_the_io
    idle_and_busy do |scheduler|
      reader, = exhausted_pipe
      IO.for_fd(reader.fileno, autoclose: true).close
      reader.autoclose = false
      assert_includes [READABLE, false], scheduler.io_wait(reader, READABLE, 5)
    rescue SystemCallError => e
      assert_kind_of Errno::EBADF, e
    end
  end

  def test_two_readers_of_one_pipe
    idle_and_busy do
      reader, writer = known_pipe
      got = []
      2.times { Fiber.schedule { got << reader.readpartial(1) } }
      writer.write("a")
      assert(eventually { got.size == 1 })
      writer.write("b")
      assert(eventually { got.size == 2 })
      assert_equal %w[a b], got.sort
    end
  end

  def test_a_reader_and_a_writer_of_one_socket
    idle_and_busy do
      near, far = UNIXSocket.pair
      big = "x" * 1_000_000
      sent = []
      Fiber.schedule { 3.times { |i| near.write(big) && (sent << i) } }
      Fiber.schedule { 3.times { |i| near.readpartial(1) == i.to_s && far.read(1_000_000) && sleep(0) } }
      3.times { |i| far.write(i.to_s) && sleep(0.002) }
      assert(eventually { sent.size == 3 })
      assert_equal [0, 1, 2], sent
    end
  end

  def test_waits_for_writing_and_reading_in_turn
    idle_and_busy do |scheduler|
      near, far = UNIXSocket.pair
      3.times do
        nil while near.write_nonblock("x" * 65_536, exception: false).is_a?(Integer)
        Fiber.schedule { nil while far.read_nonblock(65_536, exception: false).is_a?(String) }
        assert_equal IO::WRITABLE, scheduler.io_wait(near, IO::WRITABLE, 5)
        exhaust(near)
        Fiber.schedule { far.write("answer") }
        assert_equal READABLE, scheduler.io_wait(near, READABLE, 5)
        assert_equal "answer", near.readpartial(9)
      end
    end
  end

  # A read that got less than it had room for has most likely taken everything. Each of these is one
  # after which something is there all the same.
  def short_read(reader, expected)
    assert_equal expected, reader.readpartial(100)
  end

  def test_what_came_after_a_short_read
    idle_and_busy do
      reader, writer = known_pipe
      2.times do
        Fiber.schedule { writer.write("one") }
        short_read(reader, "one")
        writer.write("two")
        short_read(reader, "two")
      end
    end
  end

  # Whoever does not wait asks the kernel.
  def test_asking_after_a_short_read
    idle_and_busy do
      reader, writer = known_pipe
      Fiber.schedule { writer.write("one") }
      short_read(reader, "one")
      assert_equal :wait_readable, reader.read_nonblock(9, exception: false)
      writer.write("two")
      assert_equal "two", reader.read_nonblock(9)
      writer.write("3")
      assert_equal "3", reader.sysread(9)
    end
  end

  def test_an_end_that_came_with_the_last_bytes
    idle_and_busy do
      [IO.pipe, UNIXSocket.pair].each do |reader, writer|
        Fiber.schedule { writer.write("on") && sleep(0.001) && writer.write("last") && writer.close }
        short_read(reader, "on")
        short_read(reader, "last")
        assert_raises(EOFError) { reader.readpartial(9) }
      end
    end
  end

  def test_an_end_that_came_after_a_short_read
    idle_and_busy do
      near, far = UNIXSocket.pair
      Fiber.schedule { far.write("one") }
      short_read(near, "one")
      far.close_write
      assert_raises(EOFError) { near.readpartial(9) }
      near.write("still")
      assert_equal "still", far.readpartial(9)
    end
  end

  # One read ends at each.
  def test_packets_behind_a_short_read
    idle_and_busy do
      near, far = Socket.pair(:UNIX, :SEQPACKET)
      Fiber.schedule { %w[one two three].each { |packet| far.send(packet, 0) } }
      %w[one two three].each { |packet| short_read(near, packet) }
    end
  end

  def test_descriptors_behind_a_short_read
    idle_and_busy do
      near, far = UNIXSocket.pair
      Fiber.schedule { far.write("one") }
      short_read(near, "one")
      Fiber.schedule { 2.times { far.sendmsg("x", 0, nil, Socket::AncillaryData.unix_rights($stdin)) } }
      2.times { short_read(near, "x") }
    end
  end

  def test_lines_of_a_terminal_behind_a_short_read
    idle_and_busy do
      master, slave = terminal
      Fiber.schedule { master.write("one\n") }
      short_read(slave, "one\n")
      Fiber.schedule { master.write("two\nthree\n") }
      %W[two\n three\n].each { |line| short_read(slave, line) }
    ensure
      [master, slave].compact.each(&:close)
    end
  end

  def terminal
    PTY.open
  rescue SystemCallError, RuntimeError => e # PTY's own is a RuntimeError
    skip "no terminals here: #{e.message}"
  end

  def test_a_reader_that_is_opened_anew_after_a_short_read
    idle_and_busy do
      reader, writer = known_pipe
      Fiber.schedule { writer.write("one") }
      short_read(reader, "one")
      [IO.pipe, UNIXSocket.pair].each do |other, other_writer|
        other_writer.write("two")
        reader.reopen(IO.for_fd(other.fileno, autoclose: false))
        short_read(reader, "two")
      end
      File.open(__FILE__) do |file|
        reader.reopen(file)
        assert_equal File.binread(__FILE__, 20), reader.readpartial(20)
      end
    end
  end

  def test_a_number_that_is_used_anew_after_a_short_read
    idle_and_busy do
      reader, writer = known_pipe
      Fiber.schedule { writer.write("one") }
      short_read(reader, "one")
      number = reader.fileno
      reader.close
      other, other_writer = opened_as(number) { IO.pipe }
      other_writer.write("two")
      short_read(other, "two")
    end
  end

  # What another process takes is gone here.
  def test_another_process_that_reads_the_same_pipe
    idle_and_busy do
      reader, writer = known_pipe
      Fiber.schedule { writer.write("one") }
      short_read(reader, "one")
      pid = spawn("head", "-c", "3", in: reader, out: IO::NULL)
      got = []
      taker = Fiber.schedule { got << reader.readpartial(9) }
      writer.write("two")
      assert(eventually { got.any? || !process_runs?(pid) })
      writer.write("three") if got.empty? # the other one was faster
      writer.write("four") if process_runs?(pid)
      Process.wait(pid)
      assert(eventually { !taker.alive? })
      assert_equal 1, got.size
    end
  end

  def process_runs?(pid)
    File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] != "Z"
  end

  def test_a_read_that_waits_is_closed_and_interrupted
    idle_and_busy do
      reader, writer = known_pipe
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { reader.readpartial(9) } }
      Fiber.schedule { writer.write("one") }
      short_read(reader, "one")
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { reader.read(9) } }
      Fiber.schedule { reader.close }
      assert_raises(IOError) { reader.gets }
    end
  end

  # The loop's thread reads from the kernel once for each wait.
  def test_no_read_is_in_vain
    skip "needs /proc/thread-self/io" unless File.readable?("/proc/thread-self/io")
    reads = lambda do
      text = File.read("/proc/thread-self/io")
      text[/^syscr: (\d+)/, 1].to_i
    end
    in_fiber do
      reader, writer = known_pipe
      back, answer = IO.pipe
      Fiber.schedule { 220.times { answer.write(reader.gets) } }
      20.times { writer.write("x\n") && back.gets }
      before = reads.call
      200.times { writer.write("x\n") && back.gets }
      assert_operator reads.call - before, :<, 450
    end
  end

  # A descriptor without waiters must not wake the loop for ever.
  def test_descriptors_without_waiters_are_forgotten
    need_poller("epoll") # files of the kernel tell what is watched
    in_fiber do |scheduler|
      reader, writer = known_pipe
      assert_equal false, scheduler.io_wait(reader, READABLE, 0.001)
      assert_includes watched, reader.fileno
      3.times { writer.write("x") && sleep(0.002) }
      refute_includes watched, reader.fileno
      assert_equal READABLE, scheduler.io_wait(reader, READABLE, 5)
    end
  end
end
