# frozen_string_literal: true

module Abaca
  # Converts fields that are not as Rack requires into fields that can be sent: a value that is not a String is sent
  # as its to_s, and a String of several lines as several fields, as Puma does. The log names each header once.
  class PlainFields
    # The number of headers that are named in the log.
    NAMES = 100
    # What decides where the message ends: there nil means none.
    FRAMING = /\A(?:content-length|transfer-encoding)\z/i
    # The to_s of an object that has no text to send.
    NO_TEXT = "#<"
    private_constant :FRAMING, :NO_TEXT

    # @param log [Log]
    def initialize(log)
      @log = log
      @named = {}
    end

    # @param headers [Hash]
    # @param env [Hash] of the request
    # @param lines [Boolean] whether a String may have several lines, as in Rack 2
    # @return [Hash] values without a text are unchanged
    def call(headers, env, lines)
      headers.each_with_object({}) do |(name, value), plain|
        next plain[name] = value unless name.is_a?(String) && !name.start_with?("rack.", "abaca.")
        next if value.nil? && name.match?(FRAMING)

        plain[name] = plain_value(value, lines) { |trouble| tell(name, trouble, env) }
      end
    end

    private

    def plain_value(value, lines, &)
      return text(value, lines, &) unless value.is_a?(Array)

      value.flat_map { |item| item.is_a?(Array) ? [item] : text(item, lines, &) }
    end

    # @yieldparam trouble [String] what is wrong
    # @return [String, Array<String>, Object]
    def text(value, lines, &)
      return split(value, lines, &) if value.is_a?(String)
      return value if !(Object === value) || value.is_a?(Hash) # rubocop:disable Style/CaseEquality -- or a BasicObject

      string = value.to_s
      return value if string.start_with?(NO_TEXT)

      yield "is #{described(value)}: it is sent as its to_s, Rack wants a String"
      split(string, lines)
    end

    def described(value) = value.nil? ? "nil" : "of the class #{value.class}"

    def split(string, lines)
      bytes = string.b
      return string if lines || !bytes.include?("\n")

      yield "has several lines: each is sent as a header of its own, Rack wants an Array" if block_given?
      bytes.split("\n")
    end

    def tell(name, trouble, env)
      key = name.downcase
      return if @named.key?(key) || @named.size >= NAMES

      @named[key] = true
      @log.odd_header(name, trouble, env)
    end
  end
end
