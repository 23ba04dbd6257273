# frozen_string_literal: true

module Abaca
  class Top
    # The server's lines above every screen, in the room that there is: pieces that do not fit go to another line.
    class Header
      # Lines of stalls that are shown.
      STALLS = 3
      private_constant :STALLS

      # @param overview [Sight::Overview]
      # @param style [Style]
      # @param width [Integer]
      def initialize(overview, style:, width:)
        @overview = overview
        @style = style
        @width = width
      end

      # @return [Array<String>] with attributes
      def lines
        all = @overview.lines(ascii: @style.ascii)
        stalls = @overview.stalls.size
        hidden = stalls - STALLS
        all = all.first(all.size - hidden) if hidden.positive?
        lines = all.flat_map { |pieces| line(pieces) }
        lines << @style.paint("... and #{hidden} more", :alarm) if hidden.positive?
        lines
      end

      private

      def line(pieces)
        gap = total(pieces, 2) <= @width ? 2 : 1
        wrap(pieces, gap).map { |some| some.map { |piece| paint(piece) }.join(" " * gap) }
      end

      def paint(piece) = @style.paint(Sight::Text.cut(piece.text, @width), piece.mark)

      def total(pieces, gap) = pieces.sum { |piece| Sight::Text.width(piece.text) + gap } - gap

      def wrap(pieces, gap)
        pieces.each_with_object([[]]) do |piece, lines|
          lines << [] if lines.last.any? && total([*lines.last, piece], gap) > @width
          lines.last << piece
        end
      end
    end
  end
end
