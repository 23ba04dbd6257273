# frozen_string_literal: true

module Abaca
  class Top
    # Bytes of a terminal as keys: characters as Strings, others as Symbols. Sequences that mean nothing here are left
    # out.
    class Keys
      NAMES = { "\r" => :enter, "\n" => :enter, "\t" => :tab, "\x7f" => :erase, "\b" => :erase, "\x03" => :interrupt,
                "\x1a" => :suspend, "\x0c" => :redraw, "\x15" => :clear }.freeze
      SEQUENCES = { "A" => :up, "B" => :down, "C" => :right, "D" => :left, "H" => :home, "F" => :end, "1~" => :home,
                    "4~" => :end, "5~" => :page_up, "6~" => :page_down, "7~" => :home, "8~" => :end }.freeze
      SEQUENCE = %r{\A\e(?:O(?<word>[A-Za-z])|\[(?<word>[0-?]*[ -/]*[@-~]))}n
      BEGUN = %r{\A\e(?:O|\[[0-?]*[ -/]*)?\z}n
      # The first bytes of a character in UTF-8.
      PART = /\A(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\z/n
      private_constant :NAMES, :SEQUENCES, :SEQUENCE, :BEGUN, :PART

      def initialize
        @rest = +"".b
      end

      # @param bytes [String]
      # @return [Array<String, Symbol>]
      def feed(bytes)
        @rest << bytes.b
        found = []
        until @rest.empty? || BEGUN.match?(@rest)
          char = take or break
          found << char unless char == :none
        end
        found
      end

      # @return [Boolean] whether the last bytes may be the beginning of a key
      def begun? = !@rest.empty?

      # Nothing more has come: what was begun is a key of its own.
      #
      # @return [Array<Symbol>]
      def flush
        escape = @rest.start_with?("\e")
        @rest.clear
        escape ? [:escape] : []
      end

      private

      def take
        return sequence if @rest.start_with?("\e")

        text = @rest.dup.force_encoding(Encoding::UTF_8)
        char = text[0]
        return if PART.match?(@rest) # the rest will come

        @rest.slice!(0, char.bytesize)
        NAMES.fetch(char) { char.valid_encoding? && char.match?(/[[:print:]]/) ? char : :none }
      end

      # Escape and another key, as Alt sends them, are the other key alone.
      def sequence
        found = SEQUENCE.match(@rest)
        @rest.slice!(0, found ? found.end(0) : 1)
        found ? SEQUENCES.fetch(found[:word], :none) : :none
      end
    end
  end
end
