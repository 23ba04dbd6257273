# frozen_string_literal: true

require "test_helper"
require "socket"
require "json"
require "support/http2_frames"
require_relative "../../bench/support/bench"

# Clients of the benchmarks, each against a server of this test's own.
class BenchClientsTest < Minitest::Test
  PLAIN = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
  CHUNKS = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
  MOVED = "HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n"

  def setup
    Bench::Compiler.program("clients/rounds.c")
  rescue Bench::Unavailable => e
    skip e.message
  end

  # Runs the block beside a server that answers each request with the text, some milliseconds later.
  # @return [(Object, Array<String>)] what the block returns, and the requests
  def beside(text, wait: 0)
    server = TCPServer.new("127.0.0.1", 0)
    requests = Queue.new
    accepting = Thread.new do
      loop { Thread.new(server.accept) { |socket| serve(socket, requests, text, wait) } }
    rescue IOError
      nil # it is closed
    end
    [yield(server.addr[1].to_s), Array.new(requests.size) { requests.pop }]
  ensure
    server.close
    accepting.join
  end

  def serve(socket, requests, text, wait)
    while (head = socket.gets("\r\n\r\n"))
      requests << "#{head}#{socket.read(head[/content-length: (\d+)/i, 1].to_i)}"
      sleep wait
      socket.write(text)
    end
  rescue SystemCallError
    nil # the client has had enough
  end

  def rounds(port, *words) = Bench::Client.figures("rounds", port, "4", "0.4", *words)

  # When the time is over, each connection waits for an answer.
  def test_what_was_asked_for_counts
    found, requests = beside(PLAIN, wait: 0.35) { |port| rounds(port, "/list") }
    assert_equal [requests.size, 0], found.values_at(:answers, :failed)
    assert_operator found[:whole], :>, 900_000
    assert_match(%r{\AGET /list HTTP/1.1\r\n}, requests.first)
  end

  def test_chunks
    found, requests = beside(CHUNKS, wait: 0.1) { |port| rounds(port, "/") }
    assert_equal [requests.size, 0], found.values_at(:answers, :failed)
  end

  def test_a_form
    found, requests = beside(MOVED, wait: 0.1) { |port| rounds(port, "/new", "0", "a=1&b=2") }
    assert_equal [requests.size, 0], found.values_at(:answers, :failed)
    assert_match(%r{\APOST /new HTTP/1.1\r\n.+\r\n\r\na=1&b=2\z}m, requests.first)
  end

  def test_another_answer_than_that_of_a_form
    error = assert_raises(Bench::Failed) { beside(PLAIN, wait: 0.1) { |port| rounds(port, "/new", "0", "a=1") } }
    assert_match(/nothing was answered/, error.message)
  end

  def test_readers_of_responses_without_end
    head = "HTTP/1.1 200 OK\r\n\r\n"
    found, requests = beside("#{head}#{"x" * 100_000}") do |port|
      Bench::Client.figures("readers", port, "3", "1")
    end
    assert_equal ["GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 3, requests
    assert_equal [3, 3, 100_000 + head.bytesize], found.values_at(:readers, :begun, :least)
    assert_equal 3 * found[:most], found[:bytes]
  end

  # @return [(Hash, String)] what bench/clients/pieces.rb has found, and what one of its clients has sent
  def pieces(protocol, answer)
    server = TCPServer.new("127.0.0.1", 0)
    came = Queue.new
    accepting = Thread.new do
      socket = server.accept
      came << socket.read(2000)
      socket.write(answer)
      socket.close_write
      IO.copy_stream(socket, File::NULL) # unread bytes would reset the connection at the close
      socket.close
    end
    command = [RbConfig.ruby, File.join(Bench::DIR, "clients", "pieces.rb"), server.addr[1].to_s, protocol, "1", "1"]
    [JSON.parse(IO.popen(command, &:read)), came.pop]
  ensure
    server.close
    accepting.join
  end

  def test_chunks_of_two_bytes
    found, sent = pieces("http1", "HTTP/1.1 400 Bad Request\r\n\r\n")
    assert_match(/\APOST .+Transfer-Encoding: chunked\r\n\r\n(2\r\nab\r\n)+/m, sent)
    assert_operator found["bytes"], :>=, 2000
    refute_empty found["ends"]
  end

  # With a window of 100 bytes more for the stream, and the end of the connection.
  def test_frames_of_one_byte
    goaway = Http2Frames.bytes("settings 0 - 0004 00010063 goaway 0 - 00000000 0000000b")
    found, sent = pieces("h2c", goaway)
    assert sent.start_with?(Http2Frames::PREFACE)
    frames = Http2Frames.take(sent.byteslice(Http2Frames::PREFACE.bytesize..))
    assert_equal [1, "x"], [frames.last.stream, frames.last.payload]
    assert_includes found["ends"].keys, "ENHANCE_YOUR_CALM"
  end

  def test_one_that_does_not_end
    begun = Bench::Clock.now
    error = assert_raises(Bench::Failed) do
      Bench::Client.figures("rounds", limit: 0.2, prefix: ["sh", "-c", "exec sleep 30", "sleep"])
    end
    assert_equal "hangs: rounds did not end within 0.2 s", error.message
    assert_operator Bench::Clock.now - begun, :<, 10
  end

  def test_an_answer_that_is_too_long
    text = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n#{"x" * 20_000}"
    error = assert_raises(Bench::Failed) { beside(text) { |port| rounds(port, "/") } }
    assert_match(/an answer is too long/, error.message)
  end
end
