# frozen_string_literal: true

require "socket"
require_relative "http2_frames"
require_relative "wire"

# A client of HTTP/2 that sends exactly what the test says, and keeps each frame that comes. Every wait has a deadline.
class Http2Client
  # A table of size 0: responses have no references to earlier ones.
  SETTINGS = "settings 0 - 0001 00000000"

  attr_reader :frames, :socket

  # before: words that are sent at once; the preface and SETTINGS unless the test has something else; through: what
  # stands between the client and its socket, which it is called with, as TLS.
  def initialize(port, before: "preface #{SETTINGS}", host: "127.0.0.1", through: nil)
    @socket = Socket.tcp(host, port)
    @socket.setsockopt(:TCP, :NODELAY, 1)
    @through = through
    @socket = through.call(@socket) if through
    @frames = []
    @buffer = String.new(encoding: Encoding::BINARY)
    @ended = false
    send_words(before) if before
  end

  def close = @socket.close

  # True when the server has closed the connection.
  def ended? = @ended

  def send_words(words, stream: nil) = write(Http2Frames.bytes(words, stream: stream))

  # All of the bytes; returns false if the server does not want them any more.
  def write(bytes)
    until bytes.empty? || (@ended && @through)
      read_available if @through # later versions of OpenSSL read nothing behind a write that has failed
      sent = @socket.write_nonblock(bytes, exception: false)
      if sent == :wait_writable
        @socket.wait(60, :read_write) || raise(Wire::Late, "the server reads nothing")
        read_available
      else
        bytes = bytes.byteslice(sent..)
      end
    end
    bytes.empty?
  rescue Errno::EPIPE, Errno::ECONNRESET
    read_available unless @through
    @ended = true
    false
  end

  # Reads until the block is true, or the server closes.
  def read_until(within: 60)
    deadline = now + within
    until yield || @ended
      left = deadline - now
      raise Wire::Late, "after #{within} s: #{@frames.last(20)}" if left <= 0

      @socket.wait_readable(left)
      read_available
    end
    self
  end

  def read_available
    loop do
      data = @socket.read_nonblock(65_536, exception: false)
      return if data == :wait_readable
      return @ended = true unless data

      @buffer << data
      @frames.concat(Http2Frames.take(@buffer))
    end
  rescue Errno::ECONNRESET
    @ended = true
  end

  # --- what has come ---

  def of(name, stream = 0) = @frames.select { |frame| frame.is?(name, stream) }

  # The status of a stream's response; nil before it is there.
  def status(stream)
    blocks = of("headers", stream).map { |frame| Http2Frames.status(frame.payload) }
    blocks.find { |status| status >= 200 }
  end

  # The response is whole.
  def complete?(stream)
    (of("headers", stream) + of("data", stream)).any? { |frame| frame.flag?("es") }
  end

  def body(stream) = of("data", stream).map(&:payload).join

  # The code that the stream was reset with; nil if it was not.
  def reset(stream) = of("rst_stream", stream).first&.code

  # The code of the last GOAWAY; nil if there is none.
  def goaway = of("goaway").last&.code

  def pong?(hex)
    of("ping").any? { |frame| frame.flag?("ack") && frame.payload.unpack1("H*") == hex }
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
