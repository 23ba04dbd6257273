# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "net/http"
require "socket"
require "tempfile"

class IOTest < Minitest::Test
  include SchedulerCase

  def test_pipe
    reader, writer = IO.pipe
    got = nil
    with_scheduler do
      Fiber.schedule { got = reader.read }
      Fiber.schedule do
        3.times { |i| writer.print(i.to_s) && sleep(0.002) }
        writer.close
      end
    end
    assert_equal "012", got
  end

  def test_large_transfer_through_a_small_pipe
    data = Random.new(1).bytes(1 << 20)
    reader, writer = IO.pipe
    got = nil
    with_scheduler do
      Fiber.schedule { writer.write(data) && writer.close }
      Fiber.schedule { got = reader.read }
    end
    assert_equal data, got.b
  end

  def test_echo_over_many_connections
    server = TCPServer.new("127.0.0.1", 0)
    count = 0
    with_scheduler do
      Fiber.schedule do
        100.times do
          client = server.accept
          Fiber.schedule do
            while (line = client.gets)
              client.write(line)
            end
            client.close
          end
        end
      end
      100.times do |i|
        Fiber.schedule do
          socket = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
          10.times do |k|
            socket.write("#{i}:#{k}\n")
            count += 1 if socket.gets == "#{i}:#{k}\n"
          end
          socket.close
        end
      end
    end
    assert_equal 1000, count
  ensure
    server&.close
  end

  def test_io_wait_returns_the_mask
    left, right = UNIXSocket.pair
    in_fiber do |scheduler|
      assert_equal IO::WRITABLE, scheduler.io_wait(left, IO::READABLE | IO::WRITABLE, 60)
      assert_equal false, scheduler.io_wait(left, IO::READABLE, 0)
      assert_equal false, scheduler.io_wait(left, IO::READABLE, 0.01)
      right.write("x")
      assert_equal IO::READABLE, scheduler.io_wait(left, IO::READABLE, nil)
      assert_equal IO::READABLE, scheduler.io_wait(left, IO::READABLE, 0)
      assert_equal IO::READABLE | IO::WRITABLE, scheduler.io_wait(left, IO::READABLE | IO::WRITABLE)
      right.close
      assert_equal IO::READABLE, scheduler.io_wait(left, IO::READABLE)
    end
  end

  def test_urgent_data
    server = TCPServer.new("127.0.0.1", 0)
    client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
    peer = server.accept
    in_fiber do |scheduler|
      Fiber.schedule { sleep(0.01) && peer.send("!", Socket::MSG_OOB) }
      assert_equal IO::PRIORITY, scheduler.io_wait(client, IO::PRIORITY, 60)
    end
  ensure
    [server, client, peer].compact.each(&:close)
  end

  def test_several_waiters_on_one_descriptor
    left, right = UNIXSocket.pair
    woken = []
    with_scheduler do |scheduler|
      2.times { |i| Fiber.schedule { woken << [i, scheduler.io_wait(left, IO::READABLE)] } }
      Fiber.schedule { woken << [:write, scheduler.io_wait(left, IO::WRITABLE)] }
      Fiber.schedule { woken << [:late, scheduler.io_wait(left, IO::READABLE, 0.005)] }
      Fiber.schedule do
        sleep 0.001 until woken.size == 2
        right.write("x")
      end
    end
    # The first two may come in the same turn.
    assert_equal [[:late, false], [:write, IO::WRITABLE]], woken.shift(2).sort_by(&:first)
    assert_equal [[0, IO::READABLE], [1, IO::READABLE]], woken
  end

  def test_a_regular_file_is_always_ready
    Tempfile.create("abaca") do |file|
      in_fiber do |scheduler|
        assert_equal IO::READABLE, scheduler.io_wait(file, IO::READABLE, 1)
        file.write("text")
        file.flush
        assert_equal "text", File.read(file.path)
      end
    end
  end

  # The loop sleeps then, and nothing of its own thread tells it to look.
  def test_closing_an_io_in_another_thread
    reader, writer = IO.pipe
    started = Queue.new
    closer = Thread.new do
      thread = started.pop
      Thread.pass until thread.stop?
      reader.close
    end
    error = in_fiber { (started << Thread.current) && assert_raises(IOError) { reader.read(1) } }
    assert_match(/closed/, error.message)
  ensure
    closer.join
    writer.close
  end

  # As without a scheduler.
  def test_waiting_without_a_limit_has_that_of_the_io
    skip "no IO#timeout" unless IO.method_defined?(:timeout=)

    reader, writer = IO.pipe
    reader.timeout = 0.01
    in_fiber do |scheduler|
      assert_nil reader.wait_readable
      assert_equal false, scheduler.io_wait(reader, IO::READABLE)
      writer << "x"
      assert_same reader, reader.wait_readable
    end
  ensure
    [reader, writer].compact.each(&:close)
  end

  # Ruby before 4.0 does not tell a scheduler that an IO was closed.
  def test_closing_an_io_that_another_fiber_waits_for
    reader, _writer = IO.pipe
    error = nil
    took = seconds do
      with_scheduler do
        Fiber.schedule { error = assert_raises(IOError) { reader.read(1) } }
        Fiber.schedule { sleep(0.01) && reader.close }
      end
    end
    assert_match(/closed/, error.message)
    assert_operator took, :<, 19
  end

  def test_a_number_that_is_used_again
    first, _first_writer = IO.pipe
    got = []
    with_scheduler do
      Fiber.schedule { assert_raises(IOError) { first.wait_readable } && (got << :closed) }
      Fiber.schedule do
        number = first.fileno
        first.close
        second, writer = opened_as(number) { IO.pipe }
        Fiber.schedule { got << second.gets }
        sleep 0.01
        writer.puts("second")
      end
    end
    assert_equal [:closed, "second\n"], got
  end

  def test_many_numbers_used_again
    in_fiber do
      300.times do |i|
        reader, writer = IO.pipe
        Fiber.schedule { writer.write(i.to_s) && writer.close }
        assert_equal i.to_s, reader.read
        reader.close
      end
    end
  end

  def test_a_descriptor_in_blocking_mode_does_not_block_the_loop
    status, out, err = run_ruby(<<~RUBY)
      require "abaca/scheduler"
      require "io/nonblock"
      reader, writer = IO.pipe
      [reader, writer].each { |io| io.nonblock = false }
      Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new)
        Fiber.schedule { puts reader.readpartial(10) }
        Fiber.schedule { sleep 0.02; writer.syswrite("later") }
      end.join(19) or abort("blocked")
    RUBY
    assert_predicate status, :success?, err
    assert_equal "later\n", out
  end

  def test_net_http
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      4.times.map do
        Thread.new(server.accept) do |client|
          2.times do
            nil until client.gets == "\r\n"
            client.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
          end
          client.close
        end
      end.each(&:join)
    end
    bodies = []
    with_scheduler do
      4.times do
        Fiber.schedule do
          Net::HTTP.start("127.0.0.1", server.local_address.ip_port) do |http|
            2.times { bodies << http.get("/").body }
          end
        end
      end
    end
    thread.join
    assert_equal ["hello"] * 8, bodies
  ensure
    server&.close
  end

  def test_io_select
    one, one_writer = IO.pipe
    two, _two_writer = IO.pipe
    in_fiber do |scheduler|
      assert_nil scheduler.io_select([one, two], nil, nil, 0.01)
      assert_nil scheduler.io_select([one], [], nil, 0)
      assert_equal [[], [one_writer], []], scheduler.io_select([one], [one_writer], nil, 60)
      Fiber.schedule { sleep(0.01) && one_writer.write("ab\ncd") }
      assert_equal [[one], [], []], scheduler.io_select([one, two])
      one.gets
      assert_equal [[one], [], []], scheduler.io_select([one], nil, nil, 0), "buffered data counts"
      assert_raises(TypeError) { scheduler.io_select([1]) }
      assert_raises(IOError) { scheduler.io_select([one.tap(&:close)]) }
    end
  end

  # Nobody else waits for a descriptor that would make the loop look.
  def test_closing_an_io_of_a_selection
    reader, _writer = IO.pipe
    other, _other_writer = IO.pipe
    wrapped = Struct.new(:to_io).new(reader)
    took = seconds do
      with_scheduler do |scheduler|
        Fiber.schedule { assert_raises(IOError) { scheduler.io_select([other, wrapped], nil, [reader]) } }
        Fiber.schedule { sleep(0.01) && reader.close }
      end
    end
    assert_operator took, :<, 19
    refute_predicate other, :closed?
  end

  def test_io_select_of_ruby
    skip "Ruby 3.1 does not ask the scheduler" if RUBY_VERSION < "3.2"
    reader, writer = IO.pipe
    in_fiber do
      Fiber.schedule { sleep(0.01) && writer.write("x") }
      assert_equal [[reader], [], []], IO.select([reader], nil, nil, 60) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler
    end
  end

  def test_io_close_hook_wakes_the_waiters
    reader, _writer = IO.pipe
    in_fiber do |scheduler|
      waiter = Fiber.schedule { assert_raises(IOError) { reader.wait_readable } }
      assert_equal false, scheduler.io_close(reader.fileno)
      assert(eventually { !waiter.alive? })
      assert_equal false, scheduler.io_close(100_000)
    end
  end

  def test_bad_arguments
    reader, _writer = IO.pipe
    in_fiber do |scheduler|
      assert_raises(ArgumentError) { scheduler.io_wait(reader, 0) }
      assert_raises(ArgumentError) { scheduler.io_wait(reader, 64) }
      assert_raises(ArgumentError) { scheduler.io_wait(reader, IO::READABLE, -1) }
      assert_raises(TypeError) { scheduler.io_wait(3, IO::READABLE) }
      reader.close
      assert_raises(IOError) { scheduler.io_wait(reader, IO::READABLE) }
    end
  end
end
