# frozen_string_literal: true

module Abaca
  # The stream that a streaming body is called with (Rack SPEC, "Streaming Body"). Writing sends at once
  # and waits while the client is slow; the response ends with #close, which may come from another
  # fiber after the body's `call` has returned.
  class Stream
    # @param exchange [Exchange]
    # @param input [#read] the request's rack.input
    def initialize(exchange, input)
      @exchange = exchange
      @input = input
      @reading = true
    end

    # @param string [String]
    # @return [Integer] its length in octets
    # @raise [PeerError] when the client has gone
    # @raise [IOError] after the stream was closed
    def write(string) = @exchange.write(string)

    # @return [self]
    # @see #write
    def <<(string)
      @exchange.write(string)
      self
    end

    # @return [self] everything was flushed when it was written
    def flush = self

    # Reads the request's body.
    #
    # @see IO#read
    # @raise [IOError] after #close_read
    def read(*args)
      raise IOError, "not opened for reading" unless @reading

      @input.read(*args)
    end

    # @return [nil]
    def close_read
      @reading = false
      nil
    end

    # Ends the response.
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

    # @return [Boolean]
    def closed? = @exchange.closed?
  end
end
