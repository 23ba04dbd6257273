# frozen_string_literal: true

module Bench
  module Pages
    # Renders two tables for a cell: the median of each row, and the range over its rounds.
    class Tables
      # @param turns [Hash{String => Array<Hash>}] label => one Hash per round, of cell name => figures
      # @param baseline [String] label of the row that the others are compared with
      # @param against [Against, nil] each row of this checkout is compared with that of the other one
      def initialize(turns, baseline:, against: nil)
        @turns = turns
        @baseline = baseline
        @against = against
      end

      # @param cell [Mix, Hog]
      # @yieldparam label [String]
      # @yieldreturn [String] printed after the label
      # @return [String]
      def render(cell)
        rounds = @turns.transform_values { |turns| turns.filter_map { |turn| turn[cell.name] } }
        rounds.reject! { |_, turns| turns.empty? }
        names = cell.columns.map(&:name)
        medians = Table.new(["", *names])
        ranges = Table.new(["lowest to highest", *names])
        rounds.each do |label, turns|
          medians.add("#{label}#{yield label}", *cell.columns.map { |column| median(column, label, rounds) })
          ranges.add(label, *cell.columns.map { |column| column.range(turns) })
        end
        [medians, *(ranges if rounds.each_value.any? { |turns| turns.size > 1 })].join("\n")
      end

      # @return [String]
      def legend
        other = "; for this checkout's rows, of those of #{@against.name}" if @against
        "worse, better: the median lies outside the rounds of #{@baseline}#{other}\n"
      end

      private

      def median(column, label, rounds)
        verdict = column.verdict(rounds[label], rounds.fetch(baseline_of(label, rounds), []))
        [verdict, column.show(Statistics.median(column.values(rounds[label])))].compact.join(" ")
      end

      # The other checkout's rows have none.
      def baseline_of(label, rounds)
        return @baseline unless @against
        return if label.start_with?(@against.name)

        other = @against.label(label)
        other != label && rounds.key?(other) ? other : @baseline
      end
    end
  end
end
