# frozen_string_literal: true

module Abaca
  # rack.input of a request with a body (Rack SPEC, "The Input Stream"). It reads from the client's
  # connection as octets come; where there are none, the request's fiber waits. It can be read once, and
  # while the request lasts.
  #
  # #read, #readpartial, #eof?, #size, #close and #closed? are in ext/abaca/rb/server/rb_input.c. All that read
  # raise IncompleteBody when the client goes away before the end, BodyError when it is too slow or sends
  # what is no body, and IOError after #close or after the request.
  class Input
    # What a caller asks for, as Ruby's own IO takes it; for the inputs that are written in Ruby.
    #
    # @param length [#to_int]
    # @return [Integer]
    # @raise [TypeError, ArgumentError] when it is no number, or a negative one
    def self.octets(length)
      raise TypeError, "no implicit conversion of #{length.class} into Integer" unless length.respond_to?(:to_int)

      length = length.to_int
      length.negative? ? raise(ArgumentError, "negative length #{length} given") : length
    end

    # @param separator [String, nil] nil reads to the end; "" is an empty line
    # @param limit [Integer, nil] octets that a line has at most
    # @param chomp [Boolean] without the separator
    # @return [String, nil] the next line, binary; nil at the end
    def gets(separator = "\n", limit = nil, chomp: false)
      separator = "\n\n" if separator == ""
      line = take_line(separator, limit)
      chomp && line && separator ? line.chomp!(separator) || line : line
    end

    # @yieldparam line [String]
    # @return [self]
    def each
      return enum_for(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    # @return [self] it is binary already
    def binmode = self

    # @return [self] it stays binary
    def set_encoding(*) = self

    # @return [Encoding]
    def external_encoding = Encoding::BINARY
  end
end
