# frozen_string_literal: true

module Abaca
  # What the input streams in Ruby share (Rack SPEC, "The Input Stream"): lines, all binary. They provide
  # #take_line(separator, limit).
  module BinaryInput
    # As IO#gets, which accepts a limit alone.
    #
    # @param separator [String, nil] nil reads to the end; "" is the empty lines between paragraphs
    # @param limit [#to_int, nil] the maximum bytes of a line; a negative one means none
    # @param chomp [Boolean] without the separator
    # @return [String, nil] the next line, binary; nil at the end
    def gets(separator = "\n", limit = nil, chomp: false)
      if separator.is_a?(Integer)
        limit = separator
        separator = "\n"
      end
      limit = Input.integer(limit) unless limit.nil?
      limit = nil if limit&.negative?
      line = separator == "" ? take_paragraph(limit) : take_line(separator, limit)
      chomp && line && separator ? without_end(line, separator) : line
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

    private

    # Lines up to an empty one; more empty ones stand before the next paragraph, and are dropped then.
    def take_paragraph(limit)
      line = take_line("\n", limit)
      line = take_line("\n", limit) while line == "\n"
      text = line
      until line.nil? || line == "\n" || text.bytesize == limit
        line = take_line("\n", limit && (limit - text.bytesize))
        text << line if line
      end
      text
    end

    # String#chomp takes a lone CR for a line's end as well.
    def without_end(line, separator)
      separator = "\n\n" if separator == ""
      line.end_with?(separator) ? line.chomp(separator) : line
    end
  end
end
