# frozen_string_literal: true

module Bench
  module Reporting
    # What has changed since the last report. Two runs cannot be compared by their figures, since machines have other
    # users: what counts is Abaca's ratio to another row of the same run. A change is one if the rounds of the two runs
    # do not overlap, and are enough of them.
    class Changes
      NOISE = 0.005 # of what is counted: other threads allocate too
      # Ways to choose the rounds of one run among those of both. In two of them the runs do not overlap, so that is
      # chance in a tenth of all cases: with two rounds in each it would be a third.
      WAYS = 20
      Change = Struct.new(:chart, :before, :now, :yardstick, :verdict, keyword_init: true)

      # @param rows [Array<Figures::Row>]
      # @param charts [Array<Chart>]
      def initialize(rows, charts)
        @rows = rows
        @charts = charts.to_h { |chart| [[chart.key, chart.ruby], chart] }
      end

      # @return [Boolean] whether there is no report to compare with
      def first? = @rows.all? { |row| row.before_run.nil? }

      # @return [Array<Change>]
      def all = @rows.select(&:changed?).map { |row| of(row, @charts.fetch(row.id)) }

      # @return [Array<Chart>] that the last report did not have
      def new = @rows.select(&:new?).map { |row| @charts.fetch(row.id) }

      private

      def of(row, chart)
        if row.before_ratio && row.ratio && row.before_yardstick == row.yardstick
          Change.new(chart: chart, before: "#{Numbers.ratio(row.before_ratio)} x", now: "#{Numbers.ratio(row.ratio)} x",
                     yardstick: row.yardstick, verdict: verdict(row, chart))
        else
          Change.new(chart: chart, before: chart.shown(row.before), now: chart.shown(row.value),
                     verdict: chart.exact? ? counted(row, chart) : "two runs, not comparable")
        end
      end

      def verdict(row, chart)
        return "one round alone" if !chart.exact? && (row.low == row.high || row.before_low == row.before_high)

        direction = apart(row)
        return "within the rounds" if direction.zero?

        chart.exact? || enough?(row) ? judged(direction, chart) : "too few rounds"
      end

      # Whether the rounds are all above those before (1), below them (-1), or neither.
      def apart(row)
        return 1 if row.low > row.before_high

        row.high < row.before_low ? -1 : 0
      end

      # Reports until now did not note how many rounds they had.
      def enough?(row)
        now = row.rounds.to_i
        before = (row.before_rounds || now).to_i
        ways = (1..before).reduce(1) { |product, nth| product * (now + nth) / nth }
        ways >= WAYS
      end

      def counted(row, chart)
        near = (row.value - row.before).abs <= row.before.abs * NOISE
        judged(near ? 0 : row.value <=> row.before, chart)
      end

      def judged(direction, chart)
        return "the same" if direction.zero?

        direction.positive? == chart.more? ? "better" : "worse"
      end
    end
  end
end
