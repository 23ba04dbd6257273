# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "monitor"
require "openssl"
require "resolv"
require "socket"
require "tempfile"

# Methods of Ruby and of its standard library that wait: each waits as it does without a scheduler, and
# other fibers run meanwhile.
class CoreTest < Minitest::Test
  include SchedulerCase

  # Runs the block in a fiber beside one that counts how often it runs, and returns the block's value. The
  # other's first turns follow each other at once, so that they come however short the wait is.
  def beside(turns: 3)
    count = 0
    in_fiber do
      waits = true
      Fiber.schedule { (count += 1) && sleep(count < turns ? 0 : 0.002) while waits }
      value = yield
      assert_operator count, :>=, turns
      value
    ensure
      waits = false
    end
  end

  def later(time = 0.03, &block) = Fiber.schedule { sleep(time) && block.call }

  def close(*ios) = ios.flatten.compact.each { |io| io.close unless io.closed? }

  # --- threads and locks ---

  def test_a_queue_with_a_time_limit
    skip "Queue#pop(timeout:) is of Ruby 3.2" if RUBY_VERSION < "3.2"
    queue = Queue.new
    full = SizedQueue.new(1) << 0
    beside do
      assert_nil queue.pop(timeout: 0.02)
      assert_nil queue.pop(timeout: 0)
      assert_nil full.push(1, timeout: 0.02)
      later { queue << :value }
      assert_equal :value, queue.pop(timeout: 60)
      later { full.pop }
      assert_same full, full.push(1, timeout: 60)
    end
  end

  def test_a_queue_that_is_closed
    queue = Queue.new
    full = SizedQueue.new(1) << 0
    beside do
      later { queue.close && full.close }
      assert_nil queue.pop
      assert_raises(ClosedQueueError) { full << 1 }
    end
  end

  def test_a_mutex_whose_owner_is_ended
    (Fiber.method_defined?(:kill) ? %i[raise kill] : %i[raise]).each do |how|
      mutex = Mutex.new
      order = []
      with_scheduler do
        owner = Fiber.schedule do
          mutex.synchronize { sleep }
        rescue RuntimeError
          order << :raised
        end
        2.times { |i| Fiber.schedule { mutex.synchronize { sleep(0.001) && (order << i) } } }
        later(0.005) { how == :kill ? owner.kill : owner.raise("x") }
      end
      assert_equal [0, 1], order - [:raised], how
    end
  end

  def test_a_mutex_that_sleeps
    mutex = Mutex.new
    beside do
      took = seconds { mutex.synchronize { mutex.sleep(0.02) } }
      assert_operator took, :>=, 0.019
      refute_predicate mutex, :locked?
    end
  end

  def test_a_condition_with_a_time_limit
    mutex = Mutex.new
    variable = ConditionVariable.new
    beside do
      mutex.synchronize do
        took = seconds { variable.wait(mutex, 0.03) }
        assert_operator took, :>=, 0.029
        assert_predicate mutex, :owned?
        later { variable.signal }
        took = seconds { variable.wait(mutex, 60) }
        assert_operator took, :<, 19
      end
    end
  end

  def test_a_monitor
    monitor = Monitor.new
    condition = monitor.new_cond
    ready = false
    beside do
      later { monitor.synchronize { (ready = true) && condition.broadcast } }
      monitor.synchronize { monitor.synchronize { condition.wait_until { ready } } }
    end
    assert ready
  end

  def test_threads
    beside do
      assert_equal 1, Thread.new { sleep(0.03) && 1 }.value
      thread = Thread.new { sleep 0.2 }
      assert_same thread, thread.join(60)
      pid = spawn("sleep 0.02; exit 3")
      assert_equal 3, Process.detach(pid).value.exitstatus
    end
  end

  # --- sockets ---

  def test_udp
    server = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    client = UDPSocket.new.tap { |socket| socket.connect("127.0.0.1", server.addr[1]) }
    beside do
      later { client.send("one", 0) && client.send("two", 0) }
      assert_equal "one", server.recvfrom(10).first
      assert_equal "two", server.recvmsg.first
      later { server.send("three", 0, "127.0.0.1", client.addr[1]) }
      assert_equal "three", client.recv(10)
    end
  ensure
    close(server, client)
  end

  def test_accept_and_connect
    server = Socket.new(:INET, :STREAM)
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(5)
    beside do
      client = Socket.new(:INET, :STREAM)
      later { client.connect(server.local_address) && client.write("hello") && client.close_write }
      peer, = server.accept
      assert_equal "hello", peer.read
      close(peer, client)
      client = Socket.new(:INET, :STREAM)
      assert_includes [0, :wait_writable], client.connect_nonblock(server.local_address, exception: false)
      assert client.wait_writable(60)
      assert_equal :wait_readable, client.recv_nonblock(1, exception: false)
      close(server.accept.first, client)
    end
  ensure
    close(server)
  end

  def test_unix_sockets
    Dir.mktmpdir do |folder|
      server = UNIXServer.new("#{folder}/socket")
      beside do
        later { UNIXSocket.open("#{folder}/socket") { |client| client.puts("line") } }
        peer = server.accept
        assert_equal "line\n", peer.gets
        close(peer)
      end
    ensure
      close(server)
    end
  end

  def test_a_connection_that_is_refused
    held = Socket.new(:INET, :STREAM) # the port stays taken, without a listener
    held.bind(Addrinfo.tcp("127.0.0.1", 0))
    port = held.local_address.ip_port
    in_fiber { assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) } }
  ensure
    held.close
  end

  def certificate
    key = OpenSSL::PKey::RSA.new(2048)
    made = OpenSSL::X509::Certificate.new
    made.subject = made.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
    made.public_key = key.public_key
    made.serial = 1
    made.not_before = Time.now - 60
    made.not_after = Time.now + 600
    made.sign(key, OpenSSL::Digest.new("SHA256"))
    [made, key]
  end

  def test_openssl
    server = TCPServer.new("127.0.0.1", 0)
    context = OpenSSL::SSL::SSLContext.new
    context.cert, context.key = certificate
    big = "x" * 500_000
    beside(turns: 1) do
      Fiber.schedule do
        peer = OpenSSL::SSL::SSLSocket.new(server.accept, context).tap(&:accept)
        peer.puts(peer.gets.upcase)
        peer.write(big)
        peer.sysclose
      end
      tcp = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      client = OpenSSL::SSL::SSLSocket.new(tcp).tap(&:connect)
      client.puts("hello")
      assert_equal "HELLO\n", client.gets
      assert_equal big, client.read(big.size)
      client.close
      close(tcp)
    end
  ensure
    close(server)
  end

  def test_names
    need_localhost
    in_fiber do
      assert_includes %w[127.0.0.1 ::1], Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).first.ip_address
      assert_includes %w[127.0.0.1 ::1], Resolv.getaddress("localhost")
      assert_raises(SocketError) { TCPSocket.new("no-such-name.invalid", 80) }
    end
  end

  # What a hook of one's own says of a name.
  def test_no_addresses
    [nil, []].each do |answer|
      resolver = Class.new(Recorder) { define_method(:address_resolve) { |_| answer } }
      error = nil
      Thread.new do
        Fiber.set_scheduler(resolver.new)
        Fiber.schedule { error = assert_raises(SocketError) { Addrinfo.getaddrinfo("name.test", 80) } }
      end.join(DEADLINE)
      assert_kind_of SocketError, error
    end
  end

  # --- pipes, files and children ---

  def test_copy_stream
    data = Random.new(1).bytes(300_000)
    Tempfile.create("abaca") do |file|
      file.binmode.write(data)
      file.flush
      from, into = IO.pipe(binmode: true)
      near, far = UNIXSocket.pair
      in_fiber do
        Fiber.schedule { IO.copy_stream(file.path, into) && into.close }
        Fiber.schedule { IO.copy_stream(from, near) && near.close }
        assert_equal data, far.read.b
      end
    ensure
      close(from, into, near, far)
    end
  end

  def test_children
    reader, gate = IO.pipe
    beside do
      assert_equal "hi\n", `sleep 0.03; echo hi`
      assert_equal true, system("sleep 0.03")
      text = IO.popen(["sh", "-c", "sleep 0.03; cat"], "r+") do |io|
        io.write("through")
        io.close_write
        io.read
      end
      assert_equal "through", text
      pid = spawn("read line; exit", in: reader)
      assert_nil Process.wait(pid, Process::WNOHANG)
      later { gate.puts }
      assert_equal pid, Process.wait2(pid).first
      pid = spawn("sleep 0.03")
      assert_equal pid, Process.wait(0)
    end
  ensure
    close(reader, gate)
  end

  # Between a line and its end there may be a wait; what is lost or sent twice would show.
  def test_two_fibers_that_write_lines_to_one_pipe
    reader, writer = IO.pipe
    writer.sync = true
    lines = nil
    with_scheduler do
      line = "x" * 3000
      writers = Array.new(2) { |i| Fiber.schedule { 50.times { writer.puts("#{i}#{line}") } } }
      Fiber.schedule { lines = reader.read.lines.map(&:chomp) }
      Fiber.schedule { sleep(0.001) while writers.any?(&:alive?) || writer.close }
    end
    text = lines.join
    assert_equal [50, 50, 300_000], [text.count("0"), text.count("1"), text.count("x")]
    assert_equal 100, lines.size
  ensure
    close(reader, writer)
  end

  def test_io_timeout
    skip "IO#timeout is of Ruby 3.2" unless IO.method_defined?(:timeout=)
    reader, writer = IO.pipe
    reader.timeout = writer.timeout = 0.02
    beside do
      assert_raises(IO::TimeoutError) { reader.read(1) }
      assert_raises(IO::TimeoutError) { reader.gets }
      assert_raises(IO::TimeoutError) { writer.syswrite("x" * 65_536) && writer.write("x" * 100) }
      reader.timeout = 60
      assert_equal "xxx", reader.read(3)
    end
  ensure
    close(reader, writer)
  end

  def test_every_way_to_give_a_time
    reader, writer = IO.pipe
    beside do
      assert_nil reader.wait_readable(0)
      assert_nil reader.wait_readable(0.01)
      assert_nil reader.wait_readable(1r / 100)
      later { writer.write("x") }
      assert_same reader, reader.wait_readable(60)
      assert_same reader, reader.wait_readable(nil)
      assert_raises(ArgumentError) { reader.wait_readable(-1) }
      assert_equal IO::READABLE, Fiber.scheduler.io_wait(reader, IO::READABLE, 2**40)
      assert_equal IO::READABLE, Fiber.scheduler.io_wait(reader, IO::READABLE, Float::INFINITY)
    end
  ensure
    close(reader, writer)
  end

  def test_all_that_wait_for_a_closed_io
    reader, writer = IO.pipe
    copy = reader.dup
    got = []
    with_scheduler do
      3.times { |i| Fiber.schedule { assert_raises(IOError) { reader.wait_readable } && (got << i) } }
      Fiber.schedule { got << copy.read(1) }
      later(0.005) { reader.close }
      later(0.3) { writer.write("x") }
    end
    assert_equal [0, 1, 2, "x"], got.sort_by(&:to_s)
  ensure
    close(copy, writer)
  end

  # Ruby asks once and raises what it hears; IO#readpartial waits.
  def test_a_system_call_that_would_wait
    reader, writer = IO.pipe
    in_fiber do
      assert_raises(Errno::EAGAIN) { reader.sysread(1) }
      nil while writer.write_nonblock("x" * 4096, exception: false).is_a?(Integer)
      assert_raises(Errno::EAGAIN) { writer.syswrite("x") }
      assert_equal "x", reader.sysread(1)
    end
  ensure
    close(reader, writer)
  end
end
