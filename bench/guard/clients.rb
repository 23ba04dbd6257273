# frozen_string_literal: true

require "openssl"
require "socket"
require "timeout"

module Bench
  class Guard
    # A connection that is kept. Everything is sent at once, and the answer read to its end.
    class Client
      DEADLINE = 300 # seconds for an answer; valgrind is slow, and the machine may be busy

      def initialize(port)
        @io = TCPSocket.new("127.0.0.1", port)
        @io.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      end

      # @param request [String]
      # @yield when it has been sent
      # @return [String] the answer
      def ask(request)
        @io.write(request)
        yield if block_given?
        Timeout.timeout(DEADLINE) { answer }
      rescue SystemCallError, EOFError, Timeout::Error => e
        raise Failed, "no answer: #{e.message}"
      end

      def close = @io.close
    end

    # HTTP/1.1, perhaps in TLS.
    class Http1Client < Client
      # @return [String] a GET that #ask takes
      def self.get(path, *fields)
        ["GET #{path} HTTP/1.1", "Host: a.test", "User-Agent: guard", "Accept: */*", *fields, "", ""].join("\r\n")
      end

      def initialize(port, tls: false)
        super(port)
        @io = OpenSSL::SSL::SSLSocket.new(@io).tap(&:connect) if tls
      end

      # @return [String] the body of the answer
      def get(path) = ask(self.class.get(path)).split("\r\n\r\n", 2).last

      private

      def answer
        text = +""
        text << @io.readpartial(65_536) until whole?(text)
        text
      end

      def whole?(text)
        head, body = text.split("\r\n\r\n", 2)
        return false unless body
        raise Failed, "the answer is #{head.lines.first}" unless head.start_with?("HTTP/1.1 200")

        length = head[/^content-length: (\d+)/i, 1]
        length ? body.bytesize >= length.to_i : body.end_with?("0\r\n\r\n")
      end
    end

    # HTTP/2 without TLS: as much of it as one request after the other needs.
    class Http2Client < Client
      DATA = 0
      HEADERS = 1
      SETTINGS = 4
      ACK = 1 # the same bit is END_STREAM
      # :method GET, :scheme http, :path and :authority without a place in the table.
      BLOCK = "\x82\x86\x04\x06/hello\x01\x06a.test".b.freeze

      def initialize(port)
        super
        @stream = -1
        @read = +"".b
        @io.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n#{frame(SETTINGS, 0, 0)}")
        Timeout.timeout(DEADLINE) { await(SETTINGS) }
        @io.write(frame(SETTINGS, ACK, 0))
      end

      # @return [String] that #ask takes, for the next stream
      def request = frame(HEADERS, 5, @stream += 2, BLOCK)

      private

      def frame(type, flags, stream, block = "".b)
        [0, block.bytesize, type, flags, stream].pack("CnCCN") + block
      end

      def answer = await(DATA)

      # Reads up to a frame of this type with ACK or END_STREAM.
      def await(type)
        loop do
          @read << @io.readpartial(65_536) until complete?
          read = @read.slice!(0, 9 + length)
          return read if read.getbyte(3) == type && read.getbyte(4).allbits?(ACK)
        end
      end

      def length = @read.unpack1("N") >> 8

      def complete? = @read.bytesize >= 9 && @read.bytesize >= 9 + length
    end
  end
end
