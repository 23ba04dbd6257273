# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/process_case"
require "support/server_case"

# Descriptors and memory that run out, and clients that are slow on purpose.
class FaultResourcesTest < Minitest::Test
  include ProcessCase

  GET = ServerCase::GET
  APP = <<~RUBY
    class Many
      def each
        2_000.times { yield "x" * 100_000 }
      end
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/stream" then [200, { "content-type" => "text/plain" }, Many.new]
      when "/large" then [200, { "content-type" => "text/plain" }, ["x" * 5_000_000]]
      when "/open"
        files = []
        begin
          loop { files << File.open("/dev/null") }
        ensure
          files.each(&:close)
        end
      when "/deep"
        deep = ->(n) { deep.call(n + 1) + 1 }
        deep.call(0)
      when "/memory" then raise NoMemoryError, "failed to allocate memory"
      else [200, { "content-type" => "text/plain" }, ["fine"]]
      end
    end)
  RUBY

  # 200 connections, descriptors for about 50: those in are served, the others wait or are closed, the
  # processor rests, and when the descriptors are back so is the server.
  def test_more_connections_than_descriptors
    command = run_abaca(APP, rlimit_nofile: 64)
    assert_equal "fine", connect(command.port).call(GET).body
    crowd = Array.new(200) { connect(command.port, timeout: 1) }
    before = command.processor_time
    nothing_for(2)
    assert_operator command.processor_time - before, :<, 0.4, "spins for want of descriptors"
    refute command.ended?, command.text
    crowd.each(&:close)
    assert recovered?(command), command.text
    assert_operator command.descriptors, :<, 64
  end

  def test_the_app_uses_up_the_descriptors
    command = run_abaca(APP, rlimit_nofile: 64)
    client = connect(command.port)
    assert_equal 500, client.call("GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n").status
    assert_equal "fine", client.call(GET).body
    assert_equal "fine", connect(command.port).call(GET).body
  end

  def test_stack_overflow_of_the_app
    command = run_abaca(APP)
    client = connect(command.port)
    3.times do
      assert_equal 500, client.call("GET /deep HTTP/1.1\r\nHost: a.test\r\n\r\n").status
      assert_equal "fine", client.call(GET).body
    end
  end

  # A client may have chosen the number: it is one request's, on a fiber and on a thread. The app raises itself what
  # Ruby would, since a sanitizer ends the process when it is asked for too much.
  def test_more_memory_than_there_is
    ["", "routes { thread '/memory' }"].each do |config|
      command = run_abaca(APP, config:)
      client = connect(command.port)
      3.times do
        assert_equal 500, client.call("GET /memory HTTP/1.1\r\nHost: a.test\r\n\r\n").status
        assert_equal "fine", client.call(GET).body
      end
      command.wait_for(%r{NoMemoryError: .* \(GET /memory\)})
    end
  end

  # The kernel has stacks for a few dozen fibers, and one request finds none. The others take turns on
  # those that there are, which still wait beside each other, and the server still ends in order.
  def test_more_requests_than_stacks
    command = run_abaca(<<~RUBY, "--spare-loops", "0", "--max-fibers", "500", "--max-queue", "500")
      require "support/memory_maps"
      busy = most = 0
      run(lambda do |env|
        MemoryMaps.take_all_but(200) if env["PATH_INFO"] == "/take"
        most = [most, busy += 1].max
        sleep 0.1
        busy -= 1
        [200, { "content-type" => "text/plain" }, [env["PATH_INFO"] == "/most" ? most.to_s : "fine"]]
      end)
    RUBY
    get = ->(path) { "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n" }
    assert_equal "fine", connect(command.port).call(get["/take"]).body
    2.times do
      crowd = Array.new(300) { connect(command.port).tap { |client| client.write(get["/"]) } }
      statuses = crowd.map { |client| client.read.status }.tally
      assert_operator statuses[200], :>=, 299, statuses
      crowd.each(&:close)
    end
    most = Integer(connect(command.port).call(get["/most"]).body)
    assert_includes 10..250, most
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus, command.text
  end

  # Blocks of a megabyte come from the system and go back to it at once: else the C library keeps some of them, and a
  # sanitizer all.
  AT_ONCE = {
    "MALLOC_MMAP_THRESHOLD_" => "1000000",
    "ASAN_OPTIONS" => "#{ENV.fetch('ASAN_OPTIONS', '')}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
  }.freeze

  # A head may be as long as the app makes it; what it took is given back, by each thread that has written one.
  def test_a_long_head_leaves_no_memory_behind
    ["", "mode :thread\nthreads 4, 4"].each do |config|
      command = run_abaca(<<~RUBY, config:, env: AT_ONCE)
        long = "x" * 8_000_000
        run(lambda do |env|
          sleep 0.2
          [200, { "content-type" => "text/plain", **(env["PATH_INFO"] == "/long" ? { "x-long" => long } : {}) }, ["fine"]]
        end)
      RUBY
      assert_equal "fine", connect(command.port).call(GET).body
      before = command.resident
      clients = Array.new(4) { connect(command.port).write("GET /long HTTP/1.0\r\n\r\n") }
      clients.each { |client| assert_operator client.drain.bytesize, :>, 8_000_000 }
      least = before + 12_000_000
      assert eventually { command.resident < least }, "#{config}: #{command.resident - before}"
    end
  end

  # 200 MB for a client that reads a little: the body is asked for no more than the client takes.
  def test_a_stream_does_not_pile_up_in_memory
    command = run_abaca(APP)
    client = connect(command.port, receive_buffer: 4_096)
    assert_equal "fine", client.call(GET).body
    before = command.resident
    client.write("GET /stream HTTP/1.1\r\nHost: a.test\r\n\r\n")
    20.times do
      client.read_some(1_024)
      sleep 0.05
    end
    assert_operator command.resident - before, :<, 40_000_000
    assert_equal "fine", connect(command.port).call(GET).body
  end

  def test_a_stream_of_200_megabytes_is_whole
    command = run_abaca(APP)
    client = connect(command.port)
    client.write("GET /stream HTTP/1.1\r\nHost: a.test\r\n\r\n")
    before = command.resident
    bytes = 0
    tail = String.new
    until tail.end_with?("\r\n0\r\n\r\n")
      data = client.read_some(1_048_576) or flunk("ended after #{bytes} bytes")
      bytes += data.bytesize
      tail = (tail + data).byteslice(-10..) || tail
    end
    assert_includes 200_000_000..200_100_000, bytes
    assert_operator command.resident - before, :<, 150_000_000
  end

  # Many who read slowly must not hold up one who does not.
  def test_slow_readers_and_a_quick_one
    command = run_abaca(APP)
    slow = Array.new(20) { connect(command.port, receive_buffer: 4_096) }
    slow.each { |client| client.write("GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n") }
    10.times do
      slow.each { |client| client.read_some(512) }
      assert_equal "fine", connect(command.port).call(GET).body
    end
  end

  # 10,000 requests without reading one response: the server stops to read, and keeps its memory.
  def test_a_flood_of_pipelined_requests
    command = run_abaca(APP, config: "max_requests_per_connection 0\n")
    client = connect(command.port, receive_buffer: 4_096)
    client.call(GET)
    before = command.resident
    10_000.times do
      break unless client.socket.wait_writable(0.2)

      client.socket.write_nonblock(GET, exception: false)
    end
    assert_operator command.resident - before, :<, 20_000_000
    assert_equal "fine", connect(command.port).call(GET).body
  end

  # "/0.file" to "/9.file" are small files, "/large.file" fills a socket by and by.
  FILES = <<~RUBY
    body = Struct.new(:to_path) { def each = yield(File.binread(to_path)) }
    run(->(env) { [200, { "content-type" => "text/plain" }, body.new(File.join(__dir__, env["PATH_INFO"]))] })
  RUBY

  def run_files(config: nil, **options)
    10.times { |i| File.write(File.join(@directory, "#{i}.file"), i.to_s * 100) }
    File.write(File.join(@directory, "large.file"), "x" * 50_000)
    run_abaca(FILES, config:, **options)
  end

  # How many of these files the server has open.
  def open_files(command) = command.open.count { |path| path.end_with?(".file") }

  # A connection that has asked for large files, and reads none of them, until its socket is full. Returns
  # the client, and how many it has asked for.
  def full_connection(command, watch)
    before = open_files(command)
    client = connect(command.port, receive_buffer: 4_096)
    asked = 0
    loop do
      client.write(get("large"))
      asked += 1
      watch.call(get("1")) # the server has come to it
      break unless eventually(within: 0.3) { open_files(command) == before }
    end
    [client, asked]
  end

  def get(name) = "GET /#{name}.file HTTP/1.1\r\nHost: a.test\r\n\r\n"

  # Each response is a file with a descriptor of its own, behind a socket that is full.
  def test_a_flood_of_pipelined_files
    ["", "mode :thread"].each do |config|
      command = run_files(config:)
      flood, asked = full_connection(command, other = connect(command.port))
      flood.write(Array.new(800) { |i| get(i % 10) }.join)
      5.times { |i| assert_equal i.to_s * 100, other.call(get(i)).body }
      assert eventually { open_files(command) <= 16 } # the other's last one is closed after it was sent
      nothing_for(0.5) { open_files(command) <= 16 }
      asked.times { assert_equal 50_000, flood.read.body.bytesize }
      800.times { |i| assert_equal (i % 10).to_s * 100, flood.read.body, config }
    end
  end

  # Descriptors for about 80: of those who do not read some have to go, and whoever reads is served. Who goes is
  # whose socket has taken nothing for longest, and a socket that is full takes a few bytes now and then.
  def test_files_for_a_crowd_that_does_not_read
    command = run_files(rlimit_nofile: 80)
    other = connect(command.port)
    crowd = Array.new(6) do
      client, asked = full_connection(command, other)
      client.write(get(1) * 30)
      10.times { assert_equal "1" * 100, other.call(get(1)).body }
      [client, asked + 30]
    end
    assert_equal 50_000, crowd.last.first.read.body.bytesize
    assert_includes 1..5, crowd[...-1].count { |client, asked| cut_off?(client, asked) }
  end

  # The log's reader has gone: lines are dropped, nothing else happens.
  def test_a_log_without_a_reader
    reader, writer = IO.pipe
    run_abaca(APP, "-v", %i[out err] => writer)
    writer.close
    port = listening_at(reader)
    reader.close
    client = connect(port)
    assert_equal 500, client.call("GET /deep HTTP/1.1\r\nHost: a.test\r\n\r\n").status
    20.times { assert_equal "fine", client.call(GET).body }
  end

  private

  # Whether the client's connection ends before it has what it has asked for.
  def cut_off?(client, asked)
    asked.times { client.read }
    false
  rescue EOFError, Errno::ECONNRESET, Wire::Malformed
    true
  end

  # The port that a log which comes through the pipe names.
  def listening_at(reader)
    until (port = reader.gets.to_s[%r{Listening on http://\S*:(\d+)}, 1])
      flunk "the command has ended" if reader.eof?
    end
    Integer(port)
  end

  def recovered?(command)
    eventually do
      Wire::Client.new(command.port, timeout: 2).then do |client|
        client.call(GET).body == "fine"
      ensure
        client.close
      end
    rescue Wire::Late, EOFError, SystemCallError
      false
    end
  end
end
