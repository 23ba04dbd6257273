# frozen_string_literal: true

require "yaml"

module Bench
  module Reporting
    # Where others are ahead of Abaca: by more than the rounds differ, or in every round.
    class Behind
      # `older`: on the newest Ruby, this is not so.
      Row = Struct.new(:chart, :other, :ratio, :older, keyword_init: true) do
        # @return [String]
        def title = "#{chart.title}#{" (Ruby #{chart.ruby})" if older}"

        # How many times as much Abaca needs, or how many times as much the other gives.
        def times
          return Float::INFINITY unless ratio.value

          chart.more? ? 1 / ratio.value : ratio.value
        end

        # @return [String]
        def by
          return "none there" if times.infinite?
          return "#{Numbers.ratio(times)} x" if ratio.stated?

          ends = [ratio.low, ratio.high]
          ends = ends.map { |one| 1 / one }.reverse if chart.more?
          "#{ends.map { |one| Numbers.ratio(one) }.join(" to ")} x"
        end
      end

      REASONS = File.join(__dir__, "reasons.yml")
      # What a reason consists of, and how it is put. All but the first may be missing.
      PARTS = { "why" => "%s", "profile" => "Profile: %s", "takes" => "What it would take: %s" }.freeze

      # @return [Hash{String => String}] key of a chart => why others are ahead there
      def self.reasons
        @reasons ||= YAML.safe_load_file(REASONS).each_with_object({}) do |reason, found|
          parts = PARTS.filter_map { |name, form| format(form, reason[name]) if reason[name] }
          reason["charts"].each { |key| found[key] = parts.join(" ") }
        end
      end

      # @param scenarios [Array<Scenario>]
      def initialize(scenarios)
        @charts = scenarios.flat_map(&:main).select(&:ours)
        @older = scenarios.flat_map { |scenario| scenario.others.values.flatten }.select(&:ours)
      end

      # @return [Array<Row>] where it is another Ruby server or library, the farthest first
      def ruby = rows.reject { |row| row.other.yardstick? }

      # @return [Array<Row>] where it is something that runs no Ruby
      def others = rows.select { |row| row.other.yardstick? }

      # @return [Hash{String => Array<Row>}] why, and where that is; nil for what has no reason yet
      def reasons = rows.group_by { |row| Behind.reasons[row.chart.key] }

      # @return [Array<Row>] of which nobody has said why
      def unexplained = rows.reject { |row| Behind.reasons.key?(row.chart.key) }

      # @return [String, nil] how many these are; nil if there are none
      def gap
        "No reason is known yet for #{unexplained.size} of these #{rows.size} rows." if unexplained.any?
      end

      # @return [Integer] charts in which Abaca has somebody to compare with
      def compared = @charts.count { |chart| rivals(chart).any? }

      private

      def rows = @rows ||= (newest + older).sort_by { |row| -row.times }

      def newest = @newest ||= @charts.flat_map { |chart| of(chart) }

      # What is so on an older Ruby alone, once.
      def older
        keys = newest.map { |row| row.chart.key }
        left = @older.reject { |chart| keys.include?(chart.key) }
        left.flat_map { |chart| of(chart, older: true) }.uniq { |row| row.chart.key }
      end

      # The best of each kind.
      def of(chart, older: false)
        rivals(chart).group_by(&:yardstick?).values.filter_map do |list|
          other = chart.more? ? list.max_by(&:value) : list.min_by(&:value)
          ratio = chart.ratio(other)
          next unless chart.ahead?(other) && known?(chart, other, ratio)

          Row.new(chart: chart, other: other, ratio: ratio, older: older)
        end
      end

      # There is no ratio to nothing, which is clear enough where it is counted.
      def known?(chart, other, ratio) = ratio.stated? || ratio.sided? || (chart.exact? && other.value.zero?)

      def rivals(chart) = chart.limited?(chart.ours) ? [] : [*chart.peers, chart.line("nginx")].compact
    end
  end
end
