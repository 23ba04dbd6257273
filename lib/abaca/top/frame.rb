# frozen_string_literal: true

module Abaca
  class Top
    # A look on a terminal: the header, the screens' names, the table, and a last line.
    class Frame
      # @param style [Style]
      # @param view [View]
      def initialize(style:, view:)
        @style = style
        @view = view
      end

      # @param sight [Sight]
      # @param look [Sight::Look]
      # @param size [Array(Integer, Integer)] lines and columns
      # @param facts [Array<String>] what stands behind the screens' names
      # @param last [String, nil] the last line; nil: the usual one
      # @return [Array<String>] with attributes
      def lines(sight, look, size, facts:, last:)
        height, width = size
        header = Header.new(sight.overview(look), style: @style, width:).lines.first([height - 4, 1].max)
        room = [height - header.size - 2, 2].max
        table = @view.table(look, width:, height: room)
        [*header, tabs(width, facts), *table, *Array.new([room - table.size, 0].max, ""),
         Sight::Text.cut(last || usual(look), width)]
      end

      private

      def tabs(width, facts)
        words = Sight::SCREENS.values.each.with_index(1).map do |screen, i|
          text = "#{i} #{screen.title.sub(/,.*/, '')}"
          screen.key == @view.screen ? "[#{text}]" : " #{text} "
        end
        facts = ["w#{@view.worker}", *facts] if @view.worker
        right = " #{facts.join(' ')}"
        left = Sight::Text.fit(words.join, [width - right.size, 0].max)
        @style.paint(Sight::Text.cut("#{left}#{right}", width), :title)
      end

      def usual(look)
        [("filter: #{Sight::Text.safe(@view.filter)} (Esc)" unless @view.filter.empty?), @view.summary(look), "? keys",
         "q quit"].compact.join("   ")
      end
    end
  end
end
