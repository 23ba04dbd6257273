# frozen_string_literal: true

# Clients that send bodies without end, in pieces as small as they can be: chunks of two bytes, or DATA frames of one.
# Each opens another connection, or another stream, when the server ends one.
#
#   ruby pieces.rb PORT PROTOCOL CLIENTS SECONDS
#
# The protocol is http1, https, h2c or h2. Prints the bytes that were sent and how the connections ended, as JSON.
$LOAD_PATH.unshift(File.expand_path("../../test", __dir__))
require "json"
require "support/http2_client"
require "support/tls_client"

# Clients by what they speak.
module Pieces
  # A connection that has always more to send.
  class Endless
    def initialize(socket)
      @socket = socket
      @left = "".b
    end

    # @return [Integer, nil] bytes that were sent; nil: the server has closed
    def go_on
      return unless read

      @left = more if @left.empty?
      return wait(:read) if @left.empty?

      sent = @socket.write_nonblock(@left, exception: false)
      return wait(:read_write) if sent.is_a?(Symbol)

      @left = @left.byteslice(sent..)
      sent
    end

    def close = @socket.close

    private

    def wait(mode)
      mode == :read ? @socket.wait_readable(0.1) : @socket.wait(0.1, mode)
      0
    end
  end

  # Chunks of two bytes on a connection of HTTP/1.1.
  class Chunks < Endless
    POST = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    MANY = ("2\r\nab\r\n" * 8000).freeze

    def initialize(port, through)
      socket = Socket.tcp("127.0.0.1", port)
      super(through ? through.call(socket) : socket)
      @left = POST
      @answer = +""
    end

    # @return [String] how it ended
    def end = @answer[%r{\AHTTP/1.1 (\d+)}, 1] || "closed"

    private

    def read
      data = @socket.read_nonblock(65_536, exception: false)
      @answer << data if data.is_a?(String) && @answer.empty?
      data
    end

    def more = MANY
  end

  # DATA frames of one byte on streams of a connection of HTTP/2, one after the other.
  class Frames < Endless
    POST = "headers $ eh :post"
    WINDOW = 65_535 # of a stream and of the connection, before anybody says otherwise
    AT_ONCE = 6000

    def initialize(port, through)
      @client = Http2Client.new(port, through: through)
      super(@client.socket)
      @window = @first = WINDOW
      @words = +""
      @id = -1
      begin_stream
    end

    # @return [String] how it ended
    def end = @code || "closed"

    private

    def read
      @client.read_available
      @client.frames.shift(@client.frames.size).each { |frame| take(frame) }
      @code.nil? && !@client.ended?
    end

    # What has to be said, then as many frames as the windows allow.
    def more
      words = Http2Frames.bytes(@words, stream: @id)
      @words.clear
      count = [@window, @stream, AT_ONCE].min
      return words unless count.positive?

      @window -= count
      @stream -= count
      words + @frames.byteslice(0, count * @size)
    end

    def begin_stream
      @id += 2
      @stream = @first
      one = Http2Frames.frame(0, 0, @id, "x")
      @size = one.bytesize
      @frames = one * AT_ONCE
      @words << " " << POST
    end

    def take(frame)
      if frame.is?("settings", 0)
        settle(frame)
      elsif frame.is?("goaway", 0)
        @code = frame.code
      elsif frame.is?("window_update", 0)
        @window += frame.payload.unpack1("N")
      elsif frame.stream == @id
        take_of_stream(frame)
      end
    end

    def settle(frame)
      return if frame.flag?("ack")

      window = frame.payload.scan(/.{6}/mn).to_h { |entry| entry.unpack("nN") }[4]
      @stream += window - @first if window
      @first = window if window
      @words << " settings 0 ack"
    end

    def take_of_stream(frame)
      if frame.is?("window_update", @id)
        @stream += frame.payload.unpack1("N")
      elsif frame.is?("rst_stream", @id) || (!frame.is?("headers", @id) && frame.flag?("es"))
        begin_stream
      end
    end
  end

  KINDS = { "http1" => Chunks, "https" => Chunks, "h2c" => Frames, "h2" => Frames }.freeze
  NAMES = { "https" => "http/1.1", "h2" => "h2" }.freeze
end

port, protocol, clients, seconds = ARGV
ends_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(seconds)
over = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) >= ends_at }
name = Pieces::NAMES[protocol]
through = ->(socket) { TLSClient::Secure.over(socket, alpn: [name]) } if name
sent = Array.new(Integer(clients), 0)
ends = Hash.new(0)

threads = sent.each_index.map do |nth|
  Thread.new do
    until over.call
      begin
        client = Pieces::KINDS.fetch(protocol).new(Integer(port), through)
        while !over.call && (bytes = client.go_on)
          sent[nth] += bytes
        end
        ends[over.call ? "goes on" : client.end] += 1
      rescue SystemCallError, OpenSSL::SSL::SSLError, Wire::Late => e
        ends[e.is_a?(Wire::Late) ? "stands still" : "closed"] += 1
        sleep 0.01
      ensure
        client&.close
      end
    end
  end
end
threads.each(&:join)
puts JSON.generate(bytes: sent.sum, ends: ends)
