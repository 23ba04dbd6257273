# frozen_string_literal: true

module Abaca
  class Log
    # Makes text from the wire safe for a log: no byte of it can end a line, close a quoted field or move a terminal's
    # cursor.
    module Text
      UNSAFE = /[^\x20-\x7e]|["\\]/n
      CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/n
      private_constant :UNSAFE, :CONTROL

      module_function

      # For a quoted field: everything except printable ASCII becomes \xNN, and so do quote and backslash.
      #
      # @return [String] ASCII
      def escape(text)
        text = text.to_s.b
        UNSAFE.match?(text) ? text.gsub(UNSAFE) { |byte| format("\\x%02X", byte.ord) } : text
      end

      # For text in UTF-8: invalid bytes become question marks.
      def utf8(text)
        text = text.to_s
        text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?").scrub("?")
      end

      # For a field that ends with a space: as #escape, and `-` for an empty one.
      def field(text)
        text = escape(text)
        text.empty? ? "-" : text.tr(" ", "+")
      end

      # For a message of several lines: further lines are indented, so that none of them looks like an entry of its
      # own; other control bytes become \xNN. Bytes above 127 stay as they are.
      def indent(text)
        text.to_s.b.gsub(CONTROL) { |byte| format("\\x%02X", byte.ord) }.gsub("\n", "\n      ")
      end
    end
  end
end
