# frozen_string_literal: true

module Abaca
  class Sight
    # Makes text of any origin safe for a screen: nothing in it moves a cursor, joins its neighbour, or runs from right
    # to left, and its width is known. What is not shown as it is becomes \xHH (a byte) or \u{HHHH} (a character).
    module Text
      # Characters that every terminal gives one column: ASCII, and the letters and digits of Latin, Greek and Cyrillic.
      NARROW = /[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u037a-\u037f\u0384-\u03ff\u0400-\u0481\u048a-\u052f]/
      # ... and two.
      WIDE = /[\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]/
      SHOWN = /#{NARROW}|#{WIDE}/
      PLAIN = /\A[\x20-\x7e]*\z/
      # Characters of one text that are looked at. Longer ones are cut.
      MOST = 1_000
      private_constant :NARROW, :WIDE, :SHOWN, :PLAIN, :MOST

      module_function

      # @param text [#to_s] bytes of any kind
      # @param ascii [Boolean] whether only ASCII may be shown
      # @return [String] UTF-8
      def safe(text, ascii: false)
        text = text.to_s
        text = text.byteslice(0, 4 * MOST).force_encoding(Encoding::UTF_8)[0, MOST]
        return text if text.ascii_only? && PLAIN.match?(text)

        text.each_char.map { |char| shown?(char, ascii) ? char : escape(char) }.join
      end

      # @param text [String] as #safe returns it
      # @return [Integer] columns of a terminal
      def width(text)
        text.ascii_only? ? text.size : text.size + text.scan(WIDE).size
      end

      # Cuts a text, or fills it up with spaces.
      #
      # @param text [String] as #safe returns it
      # @param columns [Integer]
      # @param align [Symbol] :left or :right
      # @return [String] of exactly that width
      def fit(text, columns, align: :left)
        text = cut(text, columns)
        room = " " * (columns - width(text))
        align == :right ? room + text : text + room
      end

      # @return [String] as much of it as fits; one that is cut ends with a ~
      def cut(text, columns)
        return text if width(text) <= columns
        return "" if columns <= 0
        return "#{text[0, columns - 1]}~" if text.ascii_only?

        kept = +""
        room = columns - 1
        text.each_char do |char|
          room -= width(char)
          break if room.negative?

          kept << char
        end
        "#{kept}~"
      end

      def shown?(char, ascii)
        char.valid_encoding? && (ascii ? PLAIN : SHOWN).match?(char)
      end

      def escape(char)
        return char.unpack("C*").map { |byte| format("\\x%02X", byte) }.join unless char.valid_encoding?
        return format("\\x%02X", char.ord) if char.ord < 0x80

        format("\\u{%X}", char.ord)
      end

      private_class_method :shown?, :escape
    end
  end
end
