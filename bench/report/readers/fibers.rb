# frozen_string_literal: true

module Bench
  module Reporting
    # New fibers beside those of a pool.
    class FibersReader < Reader
      def charts = @data.fetch("contests").flat_map { |contest| of(contest) }

      private

      def of(contest)
        contest.fetch("rows").filter_map do |name, row|
          cells = row.select { |_, cell| cell.is_a?(Hash) }
          failed, there = cells.partition { |_, cell| cell["failed"] || cell["median_ns"].nil? }.map(&:to_h)
          next if there.empty?

          unit, factor = there.values.map { |cell| cell["median_ns"] }.max > 1e5 ? ["µs", 1e-3] : ["ns", 1]
          bars = there.map { |label, cell| bar(label, cell["rounds_ns"].map { |ns| ns * factor }) }
          chart(key: name, title: "#{name}: #{row["operation"]}", unit: "#{unit} per operation", bars: bars,
                ours: "FiberPool, kept", part: contest["ruby"],
                absent: failed.transform_values { |cell| cell["failed"].to_s })
        end
      end

      def bar(label, rounds) = Bar.new(name: label, rounds: rounds, ours: label.start_with?("FiberPool"))
    end
  end
end
