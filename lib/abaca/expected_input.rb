# frozen_string_literal: true

module Abaca
  # rack.input of a request that announced its body with "Expect: 100-continue". The client is asked for
  # the body when the app first looks at it; an app that answers without looking (413, 401) never gets
  # it (RFC 9110 10.1.1). Looking parks the request's fiber until the body is there.
  class ExpectedInput
    # @param exchange [Exchange]
    def initialize(exchange)
      @exchange = exchange
      @closed = false
    end

    # The methods of the Rack SPEC's input stream; see IO for arguments and results.
    #
    # @raise [PeerError] when the client goes away, is too slow, or sends what is no body
    def gets(*args) = body.gets(*args)

    # @see #gets
    def read(*args) = body.read(*args)

    # @see #gets
    def each(&block)
      body.each(&block)
      self
    end

    # @see #gets
    def rewind = body.rewind

    # @see #gets
    def size = body.size

    # @see #gets
    def eof? = body.eof?

    # A body that nobody asked for is not asked for by closing.
    #
    # @return [nil]
    def close
      @closed = true
      @body&.close
    end

    # @return [Boolean]
    def closed? = @closed

    # @return [Encoding]
    def external_encoding = Encoding::BINARY

    private

    def body
      raise IOError, "closed stream" if @closed

      @body ||= @exchange.receive_body
    end
  end
end
