# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "abaca/outbox"
require "socket"
require "stringio"
require "support/scheduler_case"
require "tempfile"

# Outbox#write_to on each kind of descriptor, in plain threads and under fiber schedulers.
class OutboxWriteToTest < Minitest::Test
  include SchedulerCase

  SIZE = 3_000_000

  def setup
    @out = Abaca::Outbox.new
    @file = Tempfile.create
    @file.binmode
    @file.write(Random.new(3).bytes(300_000))
    @file.flush
  end

  def teardown
    @file.close
    File.unlink(@file.path)
  end

  # Fills the outbox with copies, borrowed strings and parts of a file, and returns all of it.
  def fill(out = @out)
    random = Random.new(SIZE)
    30.times do
      out.schedule(random.bytes(70_000)) && out.write(random.bytes(random.rand(20_000)))
      out.schedule_file(@file, from = random.rand(100_000), random.rand(200_000 - from))
      out << "between"
    end
    out.to_s
  end

  # Both ends of a connection whose reader is slow to begin; returns what it has read.
  def through(near, far)
    reader = Thread.new do
      sleep 0.02
      far.read
    end
    yield near
    near.close
    reader.value
  ensure
    [near, far].each(&:close)
  end

  def assert_goes_through(near, far)
    all = fill
    got = through(near, far) { |io| assert_equal all.bytesize, @out.write_to(io) }
    assert_equal all.bytesize, got.bytesize
    assert_equal all, got
    assert_equal 0, @out.pending_bytes
  end

  def blocking(io)
    io.fcntl(Fcntl::F_SETFL, io.fcntl(Fcntl::F_GETFL) & ~File::NONBLOCK)
    io
  end

  def test_a_socket = assert_goes_through(*UNIXSocket.pair)

  def test_a_pipe
    IO.pipe(binmode: true) { |reader, writer| assert_goes_through(writer, reader) }
  end

  def test_descriptors_in_blocking_mode
    require "fcntl"
    near, far = UNIXSocket.pair
    assert_goes_through(blocking(near), far)
    IO.pipe(binmode: true) { |reader, writer| assert_goes_through(blocking(writer), reader) }
  end

  def test_a_file
    all = fill
    Tempfile.create do |target|
      target.write("buffered ")
      assert_equal all.bytesize, @out.write_to(target)
      target.write(" behind")
      target.flush
      assert_equal "buffered ".b + all + " behind".b, File.binread(target.path)
    end
    Tempfile.create do |target| # sendfile does not append
      @out << "a"
      @out.schedule_file(@file, 0, 100_000)
      File.open(target.path, "ab") { |io| @out.write_to(io) }
      assert_equal "a".b + File.binread(@file.path, 100_000), File.binread(target.path)
    end
  end

  def test_what_is_no_io
    all = fill
    target = StringIO.new(+"".b)
    assert_equal all.bytesize, @out.write_to(target)
    assert_equal all, target.string
    [nil, 1, Object.new].each { |object| assert_raises(TypeError) { @out.write_to(object) } }
    @out << "never comes to an end"
    assert_raises(ArgumentError) { @out.write_to(@out) }
    @out.drain
    (first = Abaca::Outbox.new) << "from one into another"
    first.write_to(@out)
    assert_equal "from one into another", @out.to_s
  end

  def test_a_child_process
    IO.popen(%w[cat], "r+b") do |child|
      @out << "there and back"
      assert_equal 14, @out.write_to(child)
      child.close_write
      assert_equal "there and back", child.read
    end
  end

  # While one fiber waits for its slow reader, others go on.
  def under_scheduler(near, far)
    all = fill
    got = +"".b
    beats = 0
    in_fiber do
      writing = true
      Fiber.schedule do
        assert_equal all.bytesize, @out.write_to(near)
        writing = false
        near.close
      end
      Fiber.schedule { (beats += 1) && sleep(0.001) while writing }
      Fiber.schedule do
        sleep 0.001 until beats > 5
        (got << far.readpartial(20_000)) && sleep(0) until far.eof?
      end
    end
    assert_operator beats, :>, 5
    assert_equal all, got
  ensure
    [near, far].each(&:close)
  end

  def test_a_socket_under_a_scheduler = under_scheduler(*UNIXSocket.pair)

  def test_a_pipe_under_a_scheduler
    IO.pipe(binmode: true) { |reader, writer| under_scheduler(writer, reader) }
  end

  def test_a_blocking_pipe_under_a_scheduler
    require "fcntl"
    IO.pipe(binmode: true) { |reader, writer| under_scheduler(blocking(writer), reader) }
  end

  def test_a_blocking_socket_under_a_scheduler
    require "fcntl"
    near, far = UNIXSocket.pair
    under_scheduler(blocking(near), far)
  end

  def test_what_is_queued_meanwhile_goes_too
    near, far = UNIXSocket.pair
    @out.schedule("x" * SIZE)
    writer = Thread.new { @out.write_to(near) }
    Thread.pass until near.wait_writable(0).nil? || !writer.alive?
    @out << "last"
    reader = Thread.new { far.read }
    assert_equal SIZE + 4, writer.value
    near.close
    assert_equal "xlast", reader.value[-5..]
  ensure
    [near, far].each(&:close)
  end

  def test_one_writer_at_a_time
    near, far = UNIXSocket.pair
    @out.schedule("x" * SIZE)
    first = Thread.new { @out.write_to(near) }
    Thread.pass until near.wait_writable(0).nil?
    assert_raises(Abaca::Outbox::Busy) { @out.write_to(near) }
    assert_raises(Abaca::Outbox::Busy) { @out.shift(1) }
    reader = Thread.new { far.read }
    assert_equal SIZE, first.value
    near.close
    assert_equal SIZE, reader.value.size
  ensure
    [near, far].each(&:close)
  end

  # A peer that goes: what it took is gone, the rest is still there.
  def test_a_peer_that_goes
    near, far = UNIXSocket.pair
    all = fill
    writer = Thread.new do
      Thread.current.report_on_exception = false
      @out.write_to(near)
    end
    taken = far.read(50_000)
    far.close
    assert_raises(Errno::EPIPE, Errno::ECONNRESET) { writer.value }
    assert_equal all[0, 50_000], taken
    left = @out.pending_bytes
    assert_operator left, :<, all.bytesize
    assert_equal all[-left..], @out.to_s
    assert_raises(Errno::EPIPE) { @out.write_to(near) }
    assert_equal left, @out.drain
  ensure
    [near, far].each(&:close)
  end

  def test_a_thread_that_is_killed_while_it_waits
    near, far = UNIXSocket.pair
    @out.schedule("x" * SIZE)
    writer = Thread.new { @out.write_to(near) }
    Thread.pass until near.wait_writable(0).nil?
    writer.kill.join
    got = @out.pending_bytes
    reader = Thread.new { far.read }
    assert_equal got, @out.write_to(near)
    near.close
    assert_equal SIZE, reader.value.size
  ensure
    [near, far].each(&:close)
  end

  # A thread in a system call that blocks, of memory or of a file, can be killed and interrupted, and learns that
  # another thread has closed its IO. Not a byte is lost or sent twice.
  def test_a_thread_that_is_stopped_inside_a_system_call
    require "fcntl"
    stops = { kill: ->(writer, _) { writer.kill }, raise: ->(writer, _) { writer.raise(IOError) },
              close: ->(_, io) { io.close } }
    content = { memory: -> { @out.schedule("x" * 300_000) }, file: -> { @out.schedule_file(@file) } }
    stops.to_a.product(content.to_a, %i[pipe socket]) do |(how, stop), (what, queue), kind|
      reader, io = kind == :pipe ? IO.pipe(binmode: true) : UNIXSocket.pair
      queue.call
      writer = Thread.new do
        @out.write_to(blocking(io))
      rescue IOError => e
        e
      end
      Thread.pass until writer.stop? && reader.wait_readable(0)
      stop.call(writer, io)
      result = writer.join(20) && writer.value
      assert how == :kill ? writer.stop? : result.is_a?(IOError), "#{how} of #{what} into a #{kind}: #{result.inspect}"
      io.close
      assert_equal 300_000, reader.read.bytesize + @out.drain
    ensure
      [reader, io].each(&:close)
    end
  end

  def test_an_io_that_is_closed_or_cannot_be_written
    @out << "kept"
    near, far = UNIXSocket.pair
    near.close
    assert_raises(IOError) { @out.write_to(near) }
    File.open(@file.path) { |file| assert_raises(IOError) { @out.write_to(file) } }
    assert_equal "kept", @out.to_s
    far.close
  end

  # A method of the app's that fails, or that drops everything.
  def test_an_object_that_raises
    failing = Class.new { def write(_text) = raise("disk full") }.new
    @out << "kept"
    assert_raises(RuntimeError) { @out.write_to(failing) }
    assert_equal "kept", @out.to_s
    out = @out
    draining = Class.new { define_method(:write) { |_text| out.drain } }.new
    assert_equal 0, @out.write_to(draining)
  end

  def test_a_time_limit
    skip "IO#timeout= came with Ruby 3.2" unless IO.method_defined?(:timeout=)
    near, far = UNIXSocket.pair
    near.timeout = 0.02
    @out.schedule("x" * SIZE)
    assert_raises(IO::TimeoutError) { @out.write_to(near) }
    assert_operator @out.pending_bytes, :<, SIZE
  ensure
    [near, far].each { |io| io&.close }
  end

  def test_flush_callbacks_come_in_between
    seen = []
    @out << "abc"
    @out.flush { |reason| seen << [reason, @out.pending_bytes] }
    @out.flush { raise "from the callback" }
    target = StringIO.new
    assert_raises(RuntimeError) { @out.write_to(target) }
    assert_equal ["abc", [[:shift, 0]], 0], [target.string, seen, @out.write_to(target)]
  end
end
