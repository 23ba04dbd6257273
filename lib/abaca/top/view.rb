# frozen_string_literal: true

require_relative "grid"
require_relative "header"

module Abaca
  class Top
    # What is shown of a look: which screen, sorted by what, which of its rows. A look turns it into lines.
    class View
      # How a screen is looked at.
      Way = Struct.new(:column, :turned, :shift, :chosen, :top)
      KEYS = Sight::SCREENS.keys
      private_constant :Way, :KEYS

      # @return [Symbol] of Sight::SCREENS
      attr_reader :screen
      # @return [String] rows that have this text only
      attr_accessor :filter
      # @return [Integer, nil] of this worker only
      attr_reader :worker

      # @param sight [Sight]
      # @param style [Style]
      # @param screen [Symbol]
      def initialize(sight, style:, screen: KEYS.first, filter: "", worker: nil)
        @sight = sight
        @style = style
        @screen = screen
        @filter = filter
        @worker = worker
        @ways = Hash.new { |all, name| all[name] = Way.new(nil, false, 0, nil, 0) }
        @page = 1
      end

      # Another server's page, or a new one of the same.
      attr_writer :sight

      # @param name [Symbol, Integer] a key, or its number from 1
      # @return [Boolean] whether there is one
      def show(name)
        name = KEYS[name - 1] if name.is_a?(Integer) && name.positive?
        return false unless KEYS.include?(name)

        @screen = name
        true
      end

      # The next screen.
      def turn_over = @screen = KEYS[(KEYS.index(@screen) + 1) % KEYS.size]

      # The row that is chosen goes up or down.
      #
      # @param rows [Integer, Symbol] how many; :page, :back, :home or :end
      def move(rows)
        list = @rows || []
        return if list.empty?

        at = index(list)
        to = { home: 0, end: list.size - 1, page: at + @page, back: at - @page }.fetch(rows) { at + rows }
        way.chosen = list[to.clamp(0, list.size - 1)].id
      end

      # Columns that are left out give room to others.
      #
      # @param columns [Integer]
      def shift(columns)
        most = Sight::SCREENS.fetch(@screen).columns.count { |column| column.rank.positive? } - 1
        way.shift = (way.shift + columns).clamp(0, most)
      end

      # Sorts by the next column that is shown.
      #
      # @param step [Integer] 1 or -1
      def sort_by(step)
        keys = (@columns || Sight::SCREENS.fetch(@screen).columns).map(&:key)
        now = way.column || Sight::SCREENS.fetch(@screen).sort
        way.column = keys[((keys.index(now) || 0) + step) % keys.size]
      end

      # Sorts the other way round.
      def turn = way.turned = !way.turned

      # All workers, or one after the other.
      #
      # @param workers [Array<Integer>]
      def next_worker(workers)
        @worker = workers.find { |one| @worker.nil? || one > @worker }
      end

      # @return [Sight::Row, nil] the row that is chosen
      def chosen
        list = @rows || []
        list[index(list)] unless list.empty?
      end

      # @param look [Sight::Look]
      # @param width [Integer]
      # @param height [Integer, nil] nil: as many lines as there are
      # @param most [Integer] rows, where there is no height
      # @param cursor [Boolean] whether a row is chosen
      # @return [Array<String>] the titles and the rows
      def table(look, width:, height: nil, most: 10, cursor: true)
        found = read(look)
        @rows = found.rows
        @page = height ? [height - 1, 1].max : most
        first = cursor ? scroll : 0
        rows = @rows[first, @page] || []
        grid = Grid.new(found.columns, rows, width: width - 1, shift: way.shift, ascii: @style.ascii)
        @columns = grid.columns
        head = " #{grid.head(sort: found.sort, rising: found.rising?)}"
        chosen = index(@rows) - first if cursor
        [@style.paint(head, :title), *rows.each_index.map { |i| line(rows[i], grid.line(i), i == chosen) },
         *more(found, rows.size, height)]
      end

      # Shows the requests that a row stands for.
      #
      # @param row [Sight::Row] of another screen
      def narrow(row)
        if row.cells.key?(:pid)
          @worker = row.cells[:worker]
        else
          @filter = row.cells.values_at(:route, :target, :kind, :address).compact.first.to_s
        end
        show(:requests)
      end

      # All rows again.
      def forget_filter = @filter = ""

      # @param look [Sight::Look]
      # @return [String] how many rows there are, and what is to be known about them
      def summary(look)
        found = read(look)
        ["#{found.total} #{found.total == 1 ? 'row' : 'rows'}", found.note].compact.join("   ")
      end

      # @return [Hash{Symbol => Object}] for Sight::Screen.new
      def options = { sort: way.column, turned: way.turned, filter: @filter, worker: @worker }

      private

      def way = @ways[@screen]

      def read(look)
        wanted = [look, @screen, options]
        return @read.last if @read&.first == wanted

        @read = [wanted, @sight.screen(@screen, look, **options)]
        @read.last
      end

      # That of the chosen row, wherever it is by now; else the first.
      def index(list)
        found = list.index { |row| row.id == way.chosen } if way.chosen
        @last_index = found || (way.chosen ? (@last_index || 0).clamp(0, [list.size - 1, 0].max) : 0)
      end

      def scroll
        at = index(@rows)
        way.top = way.top.clamp([at - @page + 1, 0].max, at)
      end

      # What is wrong, and what is chosen, can be told without colours.
      def line(row, text, chosen)
        sign = row.mark == :alarm ? "!" : " "
        sign = ">" if chosen
        @style.paint("#{sign}#{text}", chosen ? :chosen : row.mark)
      end

      def more(found, shown, height)
        left = found.total - shown
        height || !left.positive? ? [] : ["   ... and #{left} more"]
      end
    end
  end
end
