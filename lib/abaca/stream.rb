# frozen_string_literal: true

require_relative "stream/io_names"

module Abaca
  # The stream that a streaming body and a partial hijack are called with (Rack SPEC, "Streaming Body"). It reads the
  # request's body and writes the response's, both at once if the app likes. Writes are sent at once (small pieces
  # that follow within a millisecond are sent together), and a slow client makes the writer wait. The response ends
  # with #close, which may come from another fiber or thread after the body's `call` has returned.
  class Stream
    include IONames

    # @param exchange [Exchange]
    # @param input [#read, nil] the request's rack.input
    def initialize(exchange, input)
      @exchange = exchange
      @input = input || NullInput::INSTANCE
    end

    # @param strings [Array<#to_s>]
    # @return [Integer] their length in bytes
    # @raise [PeerError] when the client has gone
    # @raise [IOError] after the stream was closed
    def write(*strings) = @exchange.write(*strings)

    # @param string [#to_s]
    # @return [self]
    # @see #write
    def <<(string)
      @exchange.write(string)
      self
    end

    # Sends what still waits to be sent with later pieces.
    #
    # @return [self]
    # @raise [IOError] after the stream was closed
    def flush
      @exchange.flush
      self
    end

    # @return [true] no write waits longer than a millisecond
    def sync = true

    # Has no effect.
    def sync=(_value); end

    # Reads the request's body, as IO#read does.
    #
    # @raise [PeerError] when the client has gone before its end
    # @raise [IOError] after #close_read
    def read(...) = input.read(...)

    # @see #read
    def gets(...) = input.gets(...)

    # What has arrived of the request's body, as IO#readpartial.
    #
    # @raise [EOFError] at its end
    # @see #read
    def readpartial(...) = input.readpartial(...)

    # As #readpartial and #write: the fiber waits, so no retry is needed.
    #
    # @param exception [Boolean] whether the end of the body is an EOFError, or nil
    def read_nonblock(length, buffer = nil, exception: true)
      readpartial(length, *buffer)
    rescue EOFError
      raise if exception
    end

    # @see #read_nonblock
    def write_nonblock(string, exception: true) = write(string) # rubocop:disable Lint/UnusedMethodArgument

    # Ends reading.
    #
    # @return [nil]
    def close_read
      @input = nil
    end

    # Ends the response; the request can still be read.
    #
    # @return [nil]
    def close_write = @exchange.close

    # Ends the response.
    #
    # @param _error [Exception, nil]
    # @return [nil]
    def close(_error = nil)
      close_read
      close_write
    end

    # @return [Boolean] whether the response has ended
    def closed? = @exchange.closed?

    # @return [Boolean] whether the server is stopping: time to send the last event and #close
    def closing? = @exchange.closing?

    # Calls the block once, on a fiber of its own, when the server begins to stop; at once when it is stopping
    # already.
    #
    # @return [nil]
    # @raise [IOError] after the request
    def on_shutdown(&) = @exchange.on_shutdown(&)

    private

    def input
      @input or raise IOError, "not opened for reading"
    end
  end
end
