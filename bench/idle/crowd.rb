# frozen_string_literal: true

require "io/wait"
require "openssl"
require "socket"

module Bench
  # Idle connections, each of which has had one request answered and stays open. They come from
  # several loopback addresses, so that the client's ports suffice.
  class Crowd
    PER_ADDRESS = 5000
    IP_BIND_ADDRESS_NO_PORT = 24 # Linux; Ruby has no name for it
    ESTABLISHED = 1 # the first byte of TCP_INFO
    BODY = "Hello World\n"
    REQUEST = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    # The preface, no settings, the acknowledgement of the server's, and GET / on stream 1: three fields of the static
    # table and `:authority`.
    HTTP2_REQUEST = [
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".b, "\0\0\0\4\0\0\0\0\0".b, "\0\0\0\4\1\0\0\0\0".b,
      "\0\0\x0e\1\5\0\0\0\1".b, "\x82\x87\x84\x41\x09127.0.0.1".b
    ].join.freeze
    ALPN = { https: "http/1.1", h2: "h2" }.freeze

    # @param port [Integer]
    # @param protocol [Symbol] of Load; not :h2c
    def initialize(port, protocol: :http1)
      @port = port
      @sockets = []
      @secure = []
      @request = protocol == :h2 ? HTTP2_REQUEST : REQUEST
      return if protocol == :http1

      @context = OpenSSL::SSL::SSLContext.new
      @context.alpn_protocols = [ALPN.fetch(protocol)]
    end

    # Opens connections until there are `count`.
    # @raise [Failed] when the server does not answer one of them
    def grow(count)
      open_one(@sockets.size) while @sockets.size < count
    end

    # @return [Integer] how many the server has not closed
    def alive
      @sockets.count { |socket| socket.getsockopt(:TCP, :INFO).data.getbyte(0) == ESTABLISHED }
    end

    def close
      @sockets.each(&:close)
      @sockets.clear
      @secure.clear
    end

    private

    def open_one(index)
      @sockets << connect("127.0.0.#{2 + (index / PER_ADDRESS)}")
      stream = @context ? secure(@sockets.last) : @sockets.last
      stream.write(@request)
      answer = +"".b
      answer << read_some(stream) until answer.end_with?(BODY) || ended?(answer)
    rescue SystemCallError, EOFError, OpenSSL::SSL::SSLError => e
      raise Failed, "connection #{index + 1}: #{e.message}"
    end

    # Some end a stream by a frame of its own, without content.
    def ended?(answer) = answer.include?(BODY) && answer.end_with?("\0\0\0\0\1\0\0\0\1".b)

    # The port is chosen when connecting: bind's search for a free one takes longer and longer.
    def connect(source)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:IP, IP_BIND_ADDRESS_NO_PORT, 1)
      socket.bind(Addrinfo.tcp(source, 0))
      socket.connect(Addrinfo.tcp("127.0.0.1", @port))
      socket
    rescue SystemCallError
      socket&.close
      raise
    end

    # It is kept, since it would take the connection along.
    def secure(socket)
      OpenSSL::SSL::SSLSocket.new(socket, @context).tap do |stream|
        @secure << stream
        stream.connect
        wanted = @context.alpn_protocols.first
        raise Failed, "no #{wanted}" if wanted == "h2" && stream.alpn_protocol != wanted
      end
    end

    def read_some(stream)
      ready = @context && stream.pending.positive?
      ready || stream.to_io.wait_readable(10) or raise Failed, "no answer to a connection that is to stay idle"
      stream.readpartial(4096)
    end
  end
end
