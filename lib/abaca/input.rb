# frozen_string_literal: true

require_relative "binary_input"

module Abaca
  # rack.input of a request with a body (Rack SPEC, "The Input Stream"). It reads from the client's
  # connection as octets come; where there are none, the request's fiber waits. It can be read once, and
  # while the request lasts.
  #
  # #read, #readpartial, #eof?, #size, #close and #closed? are in ext/abaca/rb/server/rb_input.c. All that read
  # raise IncompleteBody when the client goes away before the end, BodyError when it is too slow or sends
  # what is no body, and IOError after #close or after the request.
  class Input
    include BinaryInput

    # What a caller asks for, as Ruby's own IO takes it; for the inputs that are written in Ruby.
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
    def self.octets(length)
      length = integer(length)
      length.negative? ? raise(ArgumentError, "negative length #{length} given") : length
    end
  end
end
