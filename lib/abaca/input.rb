# frozen_string_literal: true

require_relative "binary_input"

module Abaca
  # rack.input of a request with a body (Rack SPEC, "The Input Stream"). It reads from the client's connection as
  # bytes arrive; if there are none, the request's fiber waits. It can be read once, until the request is over.
  #
  # #read, #readpartial, #eof?, #size, #close and #closed? are in ext/abaca/rb/rack/rb_input.c. All that read raise
  # IncompleteBody when the client goes away before the end, BodyError when it is too slow or the body is malformed,
  # and IOError after #close or after the request.
  class Input
    include BinaryInput

    # Converts an argument as Ruby's own IO does; for the inputs in Ruby.
    #
    # @param number [#to_int]
    # @return [Integer]
    # @raise [TypeError] when it is no number
    def self.integer(number)
      raise TypeError, "no implicit conversion of #{number.class} into Integer" unless number.respond_to?(:to_int)

      number.to_int
    end

    # @param length [#to_int]
    # @return [Integer]
    # @raise [TypeError, ArgumentError] when it is no number, or a negative one
    def self.bytes(length)
      length = integer(length)
      length.negative? ? raise(ArgumentError, "negative length #{length} given") : length
    end
  end
end
