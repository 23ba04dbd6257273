# frozen_string_literal: true

module Bench
  module Reporting
    # A chart on the page, with its sentence and its table.
    class Card
      # @return [Chart]
      attr_reader :chart

      # @param chart [Chart]
      def initialize(chart)
        @chart = chart
      end

      # @return [Array<String>] headings of the table
      def columns = ["", chart.unit, "least", "greatest", *extra]

      # @return [Array<Array<String>>] its rows
      def rows
        there = [*chart.bars, *chart.lines].map do |bar|
          ["#{bar.name}#{chart.mark(bar)}", *[bar.value, bar.low, bar.high].map { |figure| chart.figure(figure) },
           *extra.map { |name| Numbers.short(bar.more[name]) }]
        end
        there + chart.absent.map { |name, why| [name, why] }
      end

      private

      def extra = [*chart.bars, *chart.lines].flat_map { |bar| bar.more.keys }.uniq

      def safe(text) = Text.html(text)
    end
  end
end
