# frozen_string_literal: true

require_relative "view"

module Abaca
  class Top
    # Looks without a terminal: a page of text for each, or a line of JSON.
    class Pages
      # Rows of each screen, when all are shown.
      ROWS = 10
      private_constant :ROWS

      # @param sight [Sight]
      # @param out [IO]
      # @param style [Style]
      # @param screens [Array<Symbol>]
      # @param places [Places, nil] knows where requests are
      # @param options [Hash{Symbol => Object}] `filter` and `worker`, as for Sight::Screen.new
      def initialize(sight, out:, style:, screens: Sight::SCREENS.keys, places: nil, **options)
        @sight = sight
        @places = places
        @out = out
        @style = style
        @screens = screens
        @options = options
      end

      # @param looks [Integer] how many; 0: without an end
      # @param pace [Float] seconds
      # @param json [Boolean]
      # @param width [Integer]
      def write(looks:, pace:, json:, width:)
        @sight.look # rates need an earlier one
        (looks.zero? ? 1.step : 1.upto(looks)).each do |number|
          sleep pace
          look = @sight.look
          look.places = @places.wait if @places
          @out.puts(json ? line(look) : page(look, width, last: number == looks))
          @out.flush
        end
      rescue Errno::EPIPE
        nil # nobody reads on
      end

      # @param look [Sight::Look]
      # @param width [Integer]
      # @param last [Boolean] whether no other page follows
      # @return [Array<String>] lines
      def page(look, width, last: true)
        tables = @screens.flat_map do |screen|
          view = View.new(@sight, style: @style, screen:, **@options)
          most = @screens.one? ? Sight::Screen::MOST : ROWS
          ["", Sight::SCREENS.fetch(screen).title, *view.table(look, width:, most:, cursor: false)].map(&:rstrip)
        end
        [*Header.new(@sight.overview(look), style: @style, width:).lines, *tables, *("" unless last)]
      end

      private

      def line(look) = Sight::JSON.line(@sight.to_h(look, screens: @screens, **@options))
    end
  end
end
