# frozen_string_literal: true

# also: modes tls sanitized portable rubies

require "test_helper"
require "support/server_case"

# The stream of a streaming body (Rack SPEC, "Streaming Body"), and when what is written leaves.
class RackStreamTest < Minitest::Test
  include ServerCase

  # A server whose response's body is the block, called with the stream.
  def streaming(lint: false, **options, &block)
    serve(lint: lint, **options) { [200, TYPE.dup, block] }
  end

  # Waits without parking the fiber, and without looking at a clock of the test's own.
  def spin_until
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
    Thread.pass until yield || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
  end

  # --- its methods ---

  def test_writing
    seen = Queue.new
    running = streaming do |stream|
      seen << [stream.write("a", :b, 1), stream.write, stream.write("é"), (stream << "c" << 2).equal?(stream),
               stream.flush.equal?(stream), stream.sync, stream.closed?, stream.close, stream.closed?, stream.close]
    end
    assert_equal "ab1éc2".b, ask(running).body
    assert_equal [3, 0, 2, true, true, true, false, nil, true, nil], seen.pop
  end

  # By the names of IO, for what was written for a socket.
  def test_writing_as_to_an_io
    seen = Queue.new
    running = streaming do |stream|
      seen << [stream.print("a", 1), stream.puts("b", ["c\n", nil]), stream.puts, stream.printf("%02d\n", 7),
               stream.putc("x"), stream.print, stream.syswrite("é"), stream.tty?,
               *%i[to_io fileno].map { |name| stream.respond_to?(name) }]
      stream.close
    end
    assert_equal "a1b\nc\n\n\n07\nxé".b, ask(running).body
    assert_equal [nil, nil, nil, nil, "x", nil, 2, false, false, false], seen.pop
  end

  def test_reading_as_from_an_io
    seen = Queue.new
    running = streaming do |stream|
      seen << [stream.eof?, stream.readline, stream.readline(chomp: true), stream.getc, stream.getbyte, stream.readchar,
               stream.readbyte, stream.sysread(2), stream.each_line.first, stream.readlines("|"), stream.eof?]
      %i[readline readchar readbyte].each do |name|
        stream.public_send(name)
      rescue EOFError => e
        seen << e.class
      end
      seen << [stream.getc, stream.getbyte, stream.readlines, stream.binmode.equal?(stream), stream.external_encoding]
      stream.close
    end
    ask(running, request("POST", body: "one\ntwo\nabcdefg\nh|i|j"))
    assert_equal [false, "one\n", "two", "a", 98, "c", 100, "ef", "g\n", ["h|", "i|", "j"], true], seen.pop
    assert_equal [EOFError] * 3, Array.new(3) { seen.pop }
    assert_equal [nil, nil, [], true, Encoding::BINARY], seen.pop
  end

  def test_after_close
    seen = Queue.new
    running = streaming do |stream|
      stream.close_write
      seen << stream
      %i[write flush].each do |name|
        stream.public_send(name, *("x" if name == :write))
      rescue IOError => e
        seen << e.class
      end
    end
    assert_equal "", ask(running).body
    stream = seen.pop
    assert_equal [IOError, IOError], [seen.pop, seen.pop]
    assert_raises(IOError) { stream.write("after the request") }
    assert_predicate stream, :closed?
  end

  def test_reading
    seen = Queue.new
    running = streaming do |stream|
      seen << [stream.gets, stream.read(3), stream.readpartial(2), stream.read, stream.read(1)]
      stream.close_read
      begin
        stream.read
      rescue IOError => e
        seen << e.class
      end
      stream.write("still open")
      stream.close
    end
    assert_equal "still open", ask(running, request("POST", body: "line\nabcdefgh")).body
    assert_equal ["line\n", "abc", "de", "fgh", nil], seen.pop
    assert_equal IOError, seen.pop
  end

  def test_reading_a_request_without_a_body
    [true, *(false if Rack.release >= "3.1")].each do |null_input|
      seen = Queue.new
      running = streaming(null_input: null_input) do |stream|
        seen << [stream.read, stream.read(1), stream.gets]
        stream.close
      end
      ask(running)
      assert_equal ["", nil, nil], seen.pop
    end
  end

  # Both directions at once: each answer comes while the request is still being sent.
  # Rack 2 asks for these of what a partial hijack is given. There is nothing to come back for: both wait.
  def test_nonblocking_names
    seen = Queue.new
    running = streaming do |stream|
      seen << [stream.read_nonblock(3), stream.read_nonblock(10, exception: false), stream.write_nonblock("one"),
               stream.write_nonblock("two", exception: false), stream.read_nonblock(1, exception: false)]
      stream.read_nonblock(1)
    rescue EOFError => e
      seen << e.class
      stream.close
    end
    assert_equal "onetwo", ask(running, request("POST", body: "abcde")).body
    assert_equal ["abc", "de", 3, 3, nil], seen.pop
    assert_equal EOFError, seen.pop
  end

  def test_full_duplex
    running = streaming(**STREAMED) do |stream|
      while (line = stream.gets)
        stream.write(line.upcase)
      end
      stream.close
    end
    client = connect(running).write(request("POST", "/", "Transfer-Encoding" => "chunked"))
    %w[one two three].each do |word|
      client.write("#{(word.size + 1).to_s(16)}\r\n#{word}\n\r\n")
      assert_includes client.read_until("#{word.upcase}\n"), word.upcase
    end
    client.write("0\r\n\r\n")
    assert client.read_until("0\r\n\r\n")
    assert client.usable? if client.silent?(0.02)
  end

  def test_lint_has_nothing_to_say
    skip "Rack 2 has no streaming bodies" if Rack.release < "3"
    running = streaming(lint: true) do |stream|
      stream << stream.read(3)
      stream.write("x")
      stream.flush
      stream.close_read
      stream.close_write
    end
    assert_equal "abcx", ask(running, request("POST", body: "abc")).body
  end

  # What is only for a stream's eyes cannot be used to break into another response.
  def test_the_handle_writes_nothing_outside_of_a_stream
    running = serve(lint: false) do |env|
      seen = %i[write flush].map do |name|
        env["abaca.client"].public_send(name, *("garbage" if name == :write))
      rescue IOError
        :refused
      end
      env["abaca.client"].close
      [200, TYPE.dup, [seen.inspect]]
    end
    client = connect(running)
    assert_equal "[:refused, :refused]", client.call(GET).body
    assert client.usable?
  end

  # --- from elsewhere ---

  def test_another_fiber_writes
    running = streaming do |stream|
      ServerCase.beside do
        3.times do |nth|
          sleep 0.005
          stream.write(nth.to_s)
        end
        stream.close
      end
    end
    client = connect(running)
    2.times { assert_equal "012", client.call(GET).body }
  end

  def test_another_thread_writes
    threads = Queue.new
    running = streaming do |stream|
      threads << Thread.new do
        stream.write("x" * 3_000_000)
        stream.close
      end
    end
    client = connect(running)
    2.times { assert_equal 3_000_000, client.call(GET).body.bytesize }
    2.times { threads.pop.join }
  end

  # The request ends while others wait for room in its stream: each of them is told.
  def test_the_client_goes_while_others_write
    seen = Queue.new
    threads = Queue.new
    writer = lambda do |stream|
      loop { stream.write("x" * 100_000) }
    rescue Abaca::PeerError, IOError => e
      seen << e.class
    end
    running = streaming do |stream|
      2.times { ServerCase.beside { writer.call(stream) } }
      2.times { threads << Thread.new { writer.call(stream) } }
    end
    client = connect(running).write(GET)
    client.read_some
    sockets_filled(running)
    client.reset
    4.times { assert_includes [Abaca::PeerError, IOError], seen.pop }
    2.times { threads.pop.join }
    assert(eventually { running.server.stats[:requests] == 1 })
  end

  # --- a buffer that is filled again ---

  # Pieces in one String, each time with other bytes in it.
  Refilled = Struct.new(:pieces) do
    def each
      buffer = String.new(capacity: 65_536)
      pieces.times do |nth|
        buffer.replace("")
        yield buffer << letters(nth)
      end
    end

    def all = pieces.times.map { |nth| letters(nth) }.join

    private

    def letters(nth) = (97 + (nth % 26)).chr * 65_536
  end

  # The client reads nothing until the socket is full, so that a piece is taken in part.
  def assert_refilled(running, body)
    client = connect(running).write(GET)
    assert eventually { running.server.stats[:sent] > 65_536 }
    sockets_filled(running)
    assert_equal body.all, client.read.body
  end

  def test_a_buffer_that_is_filled_again_in_chunks
    body = Refilled.new(200)
    assert_refilled(streaming do |stream|
      body.each { |buffer| stream.write(buffer) }
      stream.close
    end, body)
  end

  def test_a_buffer_that_is_filled_again_within_a_length
    body = Refilled.new(200)
    headers = TYPE.merge("content-length" => body.all.bytesize.to_s)
    assert_refilled(serve(lint: false) { [200, headers.dup, body] }, body)
  end

  # Nothing is frozen, borrowed or left to the collector, however many pieces there are. (A scheduler in
  # Ruby has other objects of its own to make for each wait.)
  def test_a_buffer_that_is_filled_again_costs_no_strings
    skip "a client with TLS makes strings of its own" if ServerCase::TLS
    GC.start
    GC.disable
    strings = Queue.new
    running = streaming do |stream|
      buffer = "x" * 65_536
      before = ObjectSpace.count_objects[:T_STRING]
      400.times do
        buffer.setbyte(0, 97)
        stream << buffer
      end
      strings << (ObjectSpace.count_objects[:T_STRING] - before)
      stream.close
    end
    client = TCPSocket.new("127.0.0.1", running.port)
    client.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
    bytes = String.new(capacity: 65_536)
    nil while client.read(65_536, bytes)
    assert_operator strings.pop, :<, 200
  ensure
    GC.enable
    client&.close
  end

  # --- when it leaves ---

  def test_the_first_piece_leaves_though_the_app_computes_on
    got = false
    running = serve(lint: false) do
      [200, TYPE.dup, Enumerator.new do |out|
        out << "first"
        spin_until { got }
      end]
    end
    client = connect(running).write(GET)
    assert client.read_until("first")
    got = true
    assert client.read_until("0\r\n\r\n")
  end

  def test_a_waiting_fiber_has_sent_everything
    gate = Queue.new
    running = serve(lint: false) do
      [200, TYPE.dup, Enumerator.new do |out|
        %w[one two three].each { |piece| out << piece }
        gate.pop
      end]
    end
    client = connect(running).write(GET)
    assert client.read_until("three")
    gate << 1
    assert client.read_until("0\r\n\r\n")
  end

  def test_the_head_leaves_when_the_body_waits
    gate = Queue.new
    running = serve(lint: false) do
      sleep 0.005 # so that the head is not written in the turn that brought the request
      [200, TYPE.dup, Enumerator.new { |out| out << gate.pop }]
    end
    client = connect(running).write(GET)
    assert client.read_until("\r\n\r\n")
    gate << "body"
    assert client.read_until("body")
  end

  def test_flush_sends_though_the_app_computes_on
    got = false
    running = streaming do |stream|
      %w[one two three].each { |piece| stream << piece }
      stream.flush
      spin_until { got }
      stream.close
    end
    client = connect(running).write(GET)
    assert client.read_until("three")
    got = true
    assert client.read_until("0\r\n\r\n")
  end
end
