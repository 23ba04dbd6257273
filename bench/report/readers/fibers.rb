# frozen_string_literal: true

module Bench
  module Reporting
    # New fibers beside those of a pool.
    class FibersReader < Reader
      def charts = @data.fetch("contests").flat_map { |contest| of(contest) }

      private

      def of(contest)
        contest.fetch("rows").map do |name, row|
          cells = row.select { |_, cell| cell.is_a?(Hash) && cell["rounds_ns"] }
          unit, factor = cells.values.map { |cell| cell["median_ns"] }.max > 1e5 ? ["µs", 1e-3] : ["ns", 1]
          bars = cells.map do |label, cell|
            Bar.new(name: label, rounds: cell["rounds_ns"].map do |ns|
              ns * factor
            end, ours: label.start_with?("FiberPool"))
          end
          chart(key: name, title: "#{name}: #{row["operation"]}", unit: "#{unit} per operation", bars: bars,
                ours: "FiberPool, kept", part: contest["ruby"], absent: contest["absent"])
        end
      end
    end
  end
end
