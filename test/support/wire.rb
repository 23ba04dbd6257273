# frozen_string_literal: true

require "io/wait"
require "socket"

# A client that works with bytes: it sends exactly what the test says, and reads the answer strictly. Every wait has a
# deadline, so that a silent server fails a test and never hangs it.
module Wire
  # The server sent something that no correct server sends.
  class Malformed < StandardError; end
  # The stream ends within a response.
  class Cut < Malformed; end
  # The server did not do what the test waits for in time.
  class Late < StandardError; end

  # One response, final or interim.
  class Response
    attr_reader :status, :reason, :headers, :framing, :interim
    attr_accessor :body

    # status, reason: of the status line; headers: Array of [name, value]; framing: :none, :length,
    # :chunked or :close, how the body's end is marked; interim: the 1xx responses before this one.
    def initialize(status:, reason:, headers:, framing:, interim: [])
      @status = status
      @reason = reason
      @headers = headers
      @framing = framing
      @interim = interim
      @body = String.new(encoding: Encoding::BINARY)
    end

    # The value of the only field `name`, in any case; nil when there is none.
    def [](name)
      values = all(name)
      raise Malformed, "#{name} is there #{values.size} times" if values.size > 1

      values.first
    end

    # The values of all fields `name`, in any case.
    def all(name)
      headers.select { |key, _| key.casecmp?(name) }.map(&:last)
    end

    # True if the server announces that it closes the connection after this response.
    def close?
      all("connection").flat_map { |value| value.downcase.split(/\s*,\s*/) }.include?("close")
    end
  end

  # Turns bytes into responses. It refuses everything that RFC 9112 does not allow a server to send.
  class Parser
    STATUS_LINE = %r{\AHTTP/1\.1 ([1-9]\d\d) ([\t\x20-\x7e\x80-\xff]*)\z}n
    FIELD = /\A([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*\z/n
    DATE = /\A(Mon|Tue|Wed|Thu|Fri|Sat|Sun),\ \d\d\ (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ \d{4}
            \ \d\d:\d\d:\d\d\ GMT\z/x
    CHUNK_SIZE = /\A(0|[1-9a-fA-F][0-9a-fA-F]{0,15})\z/

    def initialize
      @buffer = String.new(encoding: Encoding::BINARY)
      @ended = false
      @interim = []
      @current = nil
    end

    # Bytes that belong to no complete response yet.
    def pending
      @current ? @buffer.bytesize + 1 : @buffer.bytesize
    end

    def feed(bytes)
      raise Malformed, "bytes after the end" if @ended

      @buffer << bytes
    end

    # The server closed its side.
    def finish
      @ended = true
    end

    # The next final response, or nil when its bytes are not complete. `head` says that it answers a
    # HEAD request.
    def next_response(head: false)
      loop do
        @current ||= parse_head(head)
        return nil unless @current

        finished = parse_body(@current)
        return nil unless finished

        response = @current
        @current = nil
        return response unless response.status < 200

        @interim << response
      end
    end

    # The interim responses that came since the last final one.
    def take_interim
      @current ||= parse_head(false)
      if @current && @current.status < 200
        @interim << @current
        @current = nil
      end
      @interim
    end

    private

    def parse_head(head)
      stop = @buffer.index("\r\n\r\n")
      unless stop
        raise Cut, "ends in a head: #{@buffer.inspect}" if @ended && !@buffer.empty?

        return nil
      end
      lines = @buffer.slice!(0, stop + 4).chomp("\r\n\r\n").split("\r\n", -1)
      _, status, reason = *STATUS_LINE.match(lines.shift) || raise(Malformed, "status line in #{lines.inspect}")
      headers = lines.map do |line|
        match = FIELD.match(line) or raise Malformed, "field line #{line.inspect}"
        [match[1], match[2]]
      end
      build(status.to_i, reason, headers, head)
    end

    def build(status, reason, headers, head)
      interim = status < 200 ? [] : @interim.tap { @interim = [] }
      response = Response.new(status: status, reason: reason, headers: headers, interim: interim,
                              framing: framing(status, headers, head))
      check_date(response)
      response
    end

    # RFC 9112 6.3, and which fields may not stand together.
    def framing(status, headers, head)
      lengths = headers.select { |name, _| name.casecmp?("content-length") }.map(&:last)
      codings = headers.select { |name, _| name.casecmp?("transfer-encoding") }.map(&:last)
      raise Malformed, "Content-Length #{lengths}" unless lengths.size < 2 && lengths.all?(/\A\d+\z/)
      raise Malformed, "Transfer-Encoding #{codings}" unless codings.size < 2 && codings.all?("chunked")
      raise Malformed, "both Content-Length and Transfer-Encoding" unless lengths.empty? || codings.empty?
      raise Malformed, "body framing on #{status}" if (status < 200 || status == 204) && (lengths + codings).any?
      return :none if head || status < 200 || status == 204 || status == 304
      return :chunked if codings.any?

      lengths.any? ? :length : :close
    end

    # RFC 9110 6.6.1: a server with a clock dates its final responses.
    def check_date(response)
      return if response.status < 200

      date = response["date"] or raise Malformed, "no Date"
      raise Malformed, "Date #{date.inspect}" unless DATE.match?(date)
    end

    def parse_body(response)
      case response.framing
      when :none then true
      when :length then take_length(response)
      when :chunked then take_chunks(response)
      when :close
        response.body << @buffer.slice!(0, @buffer.bytesize)
        @ended
      end
    end

    def take_length(response)
      length = response["content-length"].to_i
      response.body << @buffer.slice!(0, length - response.body.bytesize)
      return true if response.body.bytesize == length
      raise Cut, "body has #{response.body.bytesize} of #{length} bytes" if @ended

      false
    end

    def take_chunks(response)
      loop do
        line_end = @buffer.index("\r\n")
        return truncated unless line_end

        size_text = @buffer[0, line_end]
        raise Malformed, "chunk size #{size_text.inspect}" unless CHUNK_SIZE.match?(size_text)

        size = size_text.hex
        return truncated if @buffer.bytesize < line_end + 2 + size + 2

        chunk = @buffer.slice!(0, line_end + 2 + size + 2)
        raise Malformed, "no CRLF after a chunk" unless chunk.end_with?("\r\n")
        return true if size.zero?

        response.body << chunk[line_end + 2, size]
      end
    end

    def truncated
      raise Cut, "ends in a chunked body" if @ended

      false
    end
  end

  # A connection whose waits have deadlines.
  class Client
    attr_reader :socket, :parser

    # port: of the server on 127.0.0.1; timeout: seconds that any single wait may take;
    # receive_buffer: bytes of SO_RCVBUF, nil for the system's.
    def initialize(port, timeout: 60, receive_buffer: nil)
      @timeout = timeout
      @parser = Parser.new
      @piece = String.new
      @ended = false
      @socket = Socket.new(:INET, :STREAM)
      @socket.setsockopt(:SOCKET, :RCVBUF, receive_buffer) if receive_buffer
      @socket.setsockopt(:TCP, :NODELAY, 1)
      @socket.connect(Addrinfo.tcp("127.0.0.1", port))
    rescue SystemCallError
      @socket&.close # before it is collected
      raise
    end

    # Sends all bytes; returns self. Raises Late when the server does not take them, Errno::EPIPE or
    # Errno::ECONNRESET when it is gone.
    def write(bytes)
      bytes = bytes.b
      deadline = now + @timeout
      until bytes.empty?
        sent = @socket.write_nonblock(bytes, exception: false)
        if sent == :wait_writable
          left = deadline - now
          raise Late, "server takes no bytes" unless left.positive? && @socket.wait_writable(left)
        else
          bytes = bytes.byteslice(sent..)
        end
      end
      self
    end

    # Sends what the server takes until it closes; returns the number of bytes sent.
    def write_what_goes(bytes)
      sent = 0
      bytes.b.scan(/.{1,16384}/mn) do |piece|
        write(piece)
        sent += piece.bytesize
      end
      sent
    rescue Errno::EPIPE, Errno::ECONNRESET
      sent
    end

    # The next final response. Raises Late when it does not come, EOFError when the server closes instead.
    def read(head: false)
      deadline = now + @timeout
      loop do
        response = @parser.next_response(head: head)
        return response if response
        raise EOFError, "closed without a response" if @ended

        receive(deadline)
      end
    end

    # Sends bytes and returns the response.
    def call(bytes, head: bytes.start_with?("HEAD "))
      write(bytes).read(head: head)
    end

    # The interim response that comes next.
    def read_interim
      deadline = now + @timeout
      loop do
        interim = @parser.take_interim
        return interim.shift unless interim.empty?
        raise EOFError, "closed without an interim response" if @ended

        receive(deadline)
      end
    end

    # Bytes as they come, without parsing: what is there within the deadline, nil at the end.
    def read_some(limit = 65_536)
      deadline = now + @timeout
      loop do
        data = @socket.read_nonblock(limit, exception: false)
        return data unless data == :wait_readable

        wait_readable(deadline)
      end
    end

    # True when the server ends the connection without another byte.
    def closed?
      deadline = now + @timeout
      receive(deadline) until @ended
      @parser.pending.zero?
    end

    # All bytes until the end of the connection, unparsed.
    def drain
      bytes = String.new(encoding: Encoding::BINARY)
      while (data = read_some)
        bytes << data
      end
      bytes
    end

    # The bytes that come, until `stop` is among them or the stream ends.
    def read_until(stop)
      bytes = String.new(encoding: Encoding::BINARY)
      bytes << (read_some or break) until bytes.include?(stop)
      bytes
    end

    # True when for `seconds` nothing comes and the connection stays open.
    def silent?(seconds)
      @parser.pending.zero? && !@ended && @socket.wait_readable(seconds).nil?
    end

    # True when a fresh request on this connection is answered.
    def usable?
      call("GET /usable HTTP/1.1\r\nHost: a.test\r\n\r\n").status == 200
    end

    # Ends our direction; the server's stays open.
    def half_close
      @socket.close_write
      self
    end

    # Ends the connection with RST instead of FIN.
    def reset
      @socket.setsockopt(Socket::Option.linger(true, 0))
      close
    end

    def close
      @socket.close unless @socket.closed?
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def wait_readable(deadline)
      left = deadline - now
      raise Late, "nothing came" unless left.positive? && @socket.wait_readable(left)
    end

    def receive(deadline)
      # Without a buffer each piece would reserve that much until it is collected, all of it in memory on Ruby 4.0.
      data = @socket.read_nonblock(262_144, @piece, exception: false)
      if data == :wait_readable
        wait_readable(deadline)
      elsif data
        @parser.feed(data)
      else
        @ended = true
        @parser.finish
      end
    end
  end
end
