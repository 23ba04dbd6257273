# frozen_string_literal: true

module Abaca
  class Log
    # Makes text of any origin safe for a log: no byte of it can end a line, close a quoted field or move a terminal's
    # cursor.
    module Text
      UNSAFE = /[^\x20-\x7e]|["\\]/n
      # What a terminal, or whatever shows a line, would obey: control characters of ASCII except tab and newline, those
      # of Latin-1, line separators, and what turns the direction of text. JSON of the native part escapes the same
      # (ext/abaca/base/json.c).
      CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/
      JSON_UNSAFE = /[^\x20-\x7e]|["\\]/
      JSON_SHORT = { '"' => '\"', "\\" => "\\\\", "\n" => '\n', "\t" => '\t', "\r" => '\r' }.freeze
      REPLACEMENT = "\u{FFFD}"
      # The encodings of text from the wire, which is taken for UTF-8.
      BYTES = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].freeze
      private_constant :UNSAFE, :CONTROL, :JSON_UNSAFE, :JSON_SHORT, :REPLACEMENT, :BYTES

      module_function

      # For a quoted field: everything except printable ASCII becomes \xHH, and so do quote and backslash.
      #
      # @return [String] ASCII
      def escape(text)
        text = text.to_s
        return text if text.ascii_only? && !UNSAFE.match?(text)

        text.b.gsub(UNSAFE) { |byte| hex(byte) }
      end

      # For text in UTF-8.
      #
      # @param replacement [String] stands in for invalid bytes
      def utf8(text, replacement = "?")
        text = text.to_s
        text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        transcode(text, replacement).scrub(replacement)
      end

      # For a field that ends with a space: as #escape, and `-` for an empty one.
      def field(text)
        text = escape(text)
        return "-" if text.empty?

        text.include?(" ") ? text.tr(" ", "+") : text
      end

      # For a message: what a terminal would obey, and bytes that are not UTF-8, become \xHH; tabs, newlines and all
      # other characters stay as they are.
      #
      # @return [String] UTF-8
      def visible(text)
        text = text.to_s
        return text if text.ascii_only? && !CONTROL.match?(text)

        text = transcode(text) unless BYTES.include?(text.encoding)
        text.dup.force_encoding(Encoding::UTF_8).scrub { |bytes| hex(bytes) }.gsub(CONTROL) { |char| hex(char) }
      end

      # The same for a message of several lines: further ones are indented, so that none of them looks like an entry of
      # its own.
      def indent(text) = visible(text).gsub("\n", "\n      ")

      # For an entry that is one line, whoever has made it.
      def line(text) = visible(text).gsub("\n", '\x0A')

      # A JSON string of ASCII alone. Bytes that are not UTF-8 become U+FFFD, for JSON has no bytes.
      def json(text)
        text = text.to_s
        return "\"#{text}\"" if text.ascii_only? && !JSON_UNSAFE.match?(text)

        "\"#{utf8(text, REPLACEMENT).gsub(JSON_UNSAFE) { |char| JSON_SHORT.fetch(char) { json_escape(char) } }}\""
      end

      # Bytes of an encoding that knows no other stay as they are.
      def transcode(text, replace = nil)
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace:)
      rescue Encoding::ConverterNotFoundError
        text.dup.force_encoding(Encoding::UTF_8)
      end

      # \xHH for each byte.
      def hex(bytes) = bytes.unpack("C*").map { |byte| format("\\x%02X", byte) }.join

      # \uHHHH for each unit of UTF-16.
      def json_escape(char) = char.encode(Encoding::UTF_16BE).unpack("n*").map { |unit| format("\\u%04x", unit) }.join

      private_class_method :transcode, :hex, :json_escape
    end
  end
end
