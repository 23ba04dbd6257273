# frozen_string_literal: true

require "openssl"
require "socket"
require "timeout"

module Bench
  # Asks a server once, before any load, so that no server is measured with wrong answers.
  module Probe
    # `head_bytes` is the length of status line and fields with the empty line.
    Answer = Struct.new(:status, :head, :body, keyword_init: true) do
      def head_bytes = head.bytesize
    end

    module_function

    # @param port [Integer]
    # @param seconds [Numeric] limit for the whole exchange
    # @param tls [Boolean]
    # @return [Answer, nil] nil without an answer
    def get(port:, path: "/", seconds: 5, tls: false)
      Timeout.timeout(seconds) do
        socket = connect(port, tls)
        socket.write("GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        parse(socket.read)
      ensure
        socket&.close
      end
    rescue SystemCallError, Timeout::Error, EOFError, OpenSSL::SSL::SSLError
      nil
    end

    # @raise [Failed] when the answer is not a 200 with exactly this body
    # @return [Answer]
    def check(port:, body:, tls: false)
      answer = get(port: port, tls: tls) or raise Failed, "no answer"
      raise Failed, "status #{answer.status}" unless answer.status == 200
      raise Failed, "a body of #{answer.body.bytesize} bytes, not the right one" unless answer.body == body

      answer
    end

    # How long a batch of pipelined requests takes until the last answer is there, on one
    # connection at a time. wrk's own latencies are not valid for pipelines. Connections are short,
    # because some servers end one after a thousand requests.
    #
    # @param depth [Integer] requests in one write
    # @param length [Integer] bytes of one whole answer
    # @return [Array<Float>] milliseconds of each batch
    # @raise [Failed] when a connection breaks or the answers do not come
    def pipeline(port:, depth:, length:, connections: 10, batches: 20, seconds: 30)
      Timeout.timeout(seconds) do
        Array.new(connections) { pipeline_once(port: port, depth: depth, length: length, batches: batches) }.flatten
      end
    rescue SystemCallError, EOFError, Timeout::Error => e
      raise Failed, "pipeline: #{e.message}"
    end

    # @return [Integer] bytes of a whole answer on a connection that stays open
    def answer_bytes(port:, body:)
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
      bytes = +"".b
      Timeout.timeout(5) { bytes << socket.readpartial(1 << 16) until bytes.end_with?(body) }
      bytes.bytesize
    rescue SystemCallError, EOFError, Timeout::Error => e
      raise Failed, "keep-alive: #{e.message}"
    ensure
      socket&.close
    end

    def connect(port, tls)
      socket = TCPSocket.new("127.0.0.1", port)
      return socket unless tls

      OpenSSL::SSL::SSLSocket.new(socket).tap do |secure|
        secure.sync_close = true
        secure.connect
      end
    end

    def pipeline_once(port:, depth:, length:, batches:)
      socket = TCPSocket.new("127.0.0.1", port)
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      batch = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * depth
      Array.new(batches) { exchange(socket, batch, depth * length) }
    ensure
      socket&.close
    end

    def exchange(socket, batch, expected)
      start = Clock.now
      socket.write(batch)
      answer = socket.read(expected) or raise EOFError, "closed"
      raise EOFError, "closed in the middle of an answer" if answer.bytesize < expected

      (Clock.now - start) * 1000
    end

    def parse(bytes)
      head, body = bytes.to_s.b.split("\r\n\r\n", 2)
      return nil unless body

      body = join_chunks(body) if head.match?(/^transfer-encoding:\s*chunked/i)
      Answer.new(status: head[%r{\AHTTP/1\.1 (\d{3})}, 1].to_i, head: "#{head}\r\n\r\n", body: body)
    end

    def join_chunks(bytes)
      joined = +"".b
      while (size, rest = bytes.split("\r\n", 2)) && rest && size.hex.positive?
        joined << rest[0, size.hex]
        bytes = rest[(size.hex + 2)..].to_s
      end
      joined
    end
    private_class_method :connect, :pipeline_once, :exchange, :parse, :join_chunks
  end
end
