# frozen_string_literal: true

module Abaca
  class Top
    # A table in the room that there is: its columns' widths, and those that are left out.
    class Grid
      # Columns of the terminal that a word takes at most, and that a wide column has at least.
      WORD = 24
      LEAST = 20
      private_constant :WORD, :LEAST

      # @param columns [Array<Sight::Column>]
      # @param rows [Array<Sight::Row>] those that are shown
      # @param width [Integer] columns of the terminal
      # @param shift [Integer] how many of the columns that may be left out are left out at the left
      # @param ascii [Boolean]
      def initialize(columns, rows, width:, shift: 0, ascii: false)
        @rows = rows
        @width = width
        @ascii = ascii
        @texts = Hash.new { |all, column| all[column] = rows.map { |row| text(row, column) } }
        @columns = choose(columns - columns.reject { |column| column.rank.zero? }.first(shift))
        @widths = widths
      end

      # @return [Array<Sight::Column>] that have room
      attr_reader :columns

      # @param sort [Symbol] the key of the column that it is sorted by
      # @param rising [Boolean]
      # @return [String]
      def head(sort:, rising:)
        cells = @columns.map do |column|
          mark = (rising ? "+" : "*") if column.key == sort
          Sight::Text.fit("#{column.title}#{mark}", @widths[column], align: column.align)
        end
        Sight::Text.cut(cells.join(" "), @width)
      end

      # @param index [Integer] of a row that is shown
      # @return [String] safe to show, and no wider than the terminal
      def line(index)
        cells = @columns.map do |column|
          Sight::Text.fit(@texts[column][index], @widths[column], align: column.align)
        end
        Sight::Text.cut(cells.join(" "), @width)
      end

      private

      def text(row, column) = Sight::Units.text(row.cells[column.key], column.unit, ascii: @ascii)

      # As wide as its widest text. The mark of the sorted column stands behind the title.
      def natural(column)
        width = @texts[column].map { |text| Sight::Text.width(text) }.max || 0
        [column.title.size + 1, column.align == :left ? [width, WORD].min : width].max
      end

      def least(column) = column.wide ? LEAST : natural(column)

      def choose(columns)
        columns = columns.dup
        while columns.sum { |column| least(column) + 1 } - 1 > @width
          most = columns.map(&:rank).max
          break if most.zero?

          columns.delete_at(columns.rindex { |column| column.rank == most })
        end
        columns
      end

      # Of several wide columns, the first gets what is left.
      def widths
        found = @columns.to_h { |column| [column, least(column)] }
        wide = @columns.find(&:wide)
        found[wide] += [@width - found.values.sum - (@columns.size - 1), 0].max if wide
        found
      end
    end
  end
end
