# frozen_string_literal: true

module Abaca
  # What the input streams that are written in Ruby have in common (Rack SPEC, "The Input Stream"): lines,
  # and that they are binary. They provide #take_line(separator, limit).
  module BinaryInput
    # As IO#gets, which may be called with a limit alone.
    #
    # @param separator [String, nil] nil reads to the end; "" is an empty line
    # @param limit [Integer, nil] octets that a line has at most; a negative one is none
    # @param chomp [Boolean] without the separator
    # @return [String, nil] the next line, binary; nil at the end
    def gets(separator = "\n", limit = nil, chomp: false)
      if separator.is_a?(Integer)
        limit = separator
        separator = "\n"
      end
      separator = "\n\n" if separator == ""
      limit = nil if limit&.negative?
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
