# frozen_string_literal: true

module Abaca
  class Top
    # A text over the whole screen, which is scrolled: keys, a request in detail, an answer.
    class Reader
      MOVES = { up: -1, down: 1, "k" => -1, "j" => 1 }.freeze
      CLOSES = [:escape, :enter, "q", "?"].freeze
      private_constant :MOVES, :CLOSES

      # @param title [String]
      # @param lines [Array<String>] safe to show
      def initialize(title, lines)
        @title = title
        @lines = lines
        @first = 0
      end

      # @param key [String, Symbol]
      # @param height [Integer] lines of the terminal
      # @return [Boolean] whether it is closed
      def press(key, height)
        page = room(height)
        step = { page_up: -page, page_down: page, " " => page, home: -@first, end: @lines.size, **MOVES }[key]
        @first = (@first + step).clamp(0, [@lines.size - page, 0].max) if step
        CLOSES.include?(key)
      end

      # @return [Array<String>] for a terminal of that size
      def lines(height, width, style)
        shown = @lines[@first, room(height)] || []
        [style.paint(Sight::Text.fit(@title, width), :title), *shown.map { |line| Sight::Text.cut(line, width) },
         *Array.new(room(height) - shown.size, ""), Sight::Text.cut("#{place(shown)}Esc back", width)]
      end

      private

      def room(height) = [height - 2, 1].max

      def place(shown)
        "lines #{@first + 1} to #{@first + shown.size} of #{@lines.size}   " if shown.size < @lines.size
      end
    end
  end
end
