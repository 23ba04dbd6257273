# frozen_string_literal: true

require "socket"

# Many keep-alive clients in one thread, each with one request after another on its connection. It counts complete
# responses, so that a test can compare them with the calls of the app.
class Swarm
  REQUEST = "GET /work HTTP/1.1\r\nHost: a.test\r\n\r\n"
  HEAD = %r{\AHTTP/1\.1 (\d{3}) .*?\r\n\r\n}m
  LENGTH = /^content-length: (\d+)\r\n/i
  LATE = 20

  Client = Struct.new(:socket, :buffer, :waiting, :owed)

  # Responses that came whole, by status; what came of others before the connection ended; and how many requests
  # that had been sent by the time of #run's block got none.
  attr_reader :answered, :torn, :lost

  # @param port [Integer]
  # @param count [Integer] clients
  def initialize(port, count)
    @clients = Array.new(count) { Client.new(TCPSocket.new("127.0.0.1", port), String.new, false, false) }
    @answered = Hash.new(0)
    @torn = []
    @lost = 0
  end

  # Asks and reads until every connection was closed by the server.
  #
  # @param responses [Integer]
  # @yield once this many of them have come
  # @return [nil]
  # @raise [RuntimeError] when the server does not close them in time
  def run(responses)
    limit = now + LATE
    @clients.each { |client| ask(client) }
    until @clients.empty?
      raise "connections are still open: #{@clients.size}" if now > limit

      ready, = IO.select(@clients.map(&:socket), nil, nil, 1)
      by_socket = @clients.to_h { |client| [client.socket, client] }
      ready&.each { |socket| read(by_socket.fetch(socket)) }
      next if @owed || @answered.values.sum < responses

      @owed = @clients.each { |client| client.owed = client.waiting }
      yield
    end
  end

  def close = @clients.each { |client| client.socket.close }

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def ask(client)
    client.socket.write(REQUEST)
    client.waiting = true
  rescue SystemCallError
    leave(client) # closed meanwhile: this request never reached the server
  end

  def read(client)
    client.buffer << client.socket.read_nonblock(65_536)
    take(client)
  rescue IO::WaitReadable
    nil
  rescue EOFError, SystemCallError
    leave(client)
  end

  def take(client)
    head = HEAD.match(client.buffer) or return
    length = Integer(LENGTH.match(head[0])[1])
    return if client.buffer.bytesize < head[0].bytesize + length

    client.waiting = client.owed = false
    client.buffer.slice!(0, head[0].bytesize + length)
    @answered[Integer(head[1])] += 1
    ask(client) unless head[0].match?(/^connection: close\r\n/i)
  end

  def leave(client)
    @lost += 1 if client.owed
    @torn << client.buffer unless client.buffer.empty?
    client.socket.close
    @clients.delete(client)
  end
end
