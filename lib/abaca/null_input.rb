# frozen_string_literal: true

require_relative "binary_input"

module Abaca
  # rack.input of a request without a body: an input stream at its end. One instance serves all requests, since it has
  # no state (Rack SPEC, "The Input Stream").
  class NullInput
    include BinaryInput

    # @param length [Integer, nil]
    # @param buffer [String, nil] emptied, and binary
    # @return [String, nil] "" without a length or with 0; nil for any other
    def read(length = nil, buffer = nil)
      wanted = length.nil? ? 0 : Input.bytes(length)
      nothing = empty(buffer)
      nothing unless wanted.positive?
    end

    # @return [String] "" for a length of 0
    # @raise [EOFError] for any other
    def readpartial(length, buffer = nil)
      wanted = Input.bytes(length)
      nothing = empty(buffer)
      wanted.zero? ? nothing : raise(EOFError, "end of file reached")
    end

    # @return [Integer] 0
    def rewind = 0

    # @return [nil]
    def close = nil

    # @return [Integer] 0
    def size = 0

    # @return [Integer] 0
    def pos = 0

    # @return [true]
    def eof? = true

    # @return [Boolean] closing has no effect
    def closed? = false

    INSTANCE = new.freeze

    private

    # There is never a line.
    def take_line(*) = nil

    def empty(buffer)
      buffer ? buffer.clear.force_encoding(Encoding::BINARY) : String.new
    end
  end
end
