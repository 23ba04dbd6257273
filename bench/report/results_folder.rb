# frozen_string_literal: true

require "json"

module Bench
  module Reporting
    # The results of a folder: of each part of each benchmark, on each Ruby, the newest run.
    class ResultsFolder
      # @param folder [String]
      def initialize(folder = Results::DIRECTORY)
        @folder = folder
      end

      # @return [Array<Run>] the oldest first
      def runs
        @runs ||= Dir[File.join(@folder, "*.json")].sort.filter_map do |path|
          data = JSON.parse(File.read(path))
          next unless data.is_a?(Hash) && data["benchmark"] && !Readers::UNSHOWN.include?(data["benchmark"])

          Run.new(file: File.basename(path), data: data)
        end
      end

      # Of two runs the one in which others took part, then the one that is not a comparison of two checkouts, then the
      # newer one.
      #
      # @return [Array<Chart>] in the order of the benchmarks in the list of scenarios, and of their readers
      def charts
        @charts ||= begin
          all = runs.select { |run| Readers.any?(run) }.flat_map { |run| Readers.charts(run) }
          best = all.each_with_index.group_by { |chart, _| [chart.key, chart.ruby] }.values.map do |charts|
            charts.max_by { |chart, nth| [chart.peers.any? ? 1 : 0, chart.run.against ? 0 : 1, nth] }.first
          end
          best.group_by(&:benchmark).values.flatten
        end
      end

      # @param benchmark [String]
      # @return [Array<Chart>] by Ruby, the newest one first
      def charts_of(benchmark)
        found = charts.select { |chart| chart.benchmark == benchmark }
        found.sort_by.with_index { |chart, nth| [order(chart.ruby), nth] }
      end

      # @param key [String] of a chart
      # @return [Chart, nil] on the newest Ruby
      def find(key) = charts.select { |chart| chart.key == key }.min_by { |chart| order(chart.ruby) }

      # @return [Array<Plain>] benchmarks without a reader, each with its newest run
      def plain
        unread = runs.reject { |run| Readers.any?(run) || run.benchmark == Suites::BENCHMARK }
        unread.group_by(&:benchmark).values.map { |list| Plain.new(list.last) }
      end

      private

      def order(ruby) = ruby.scan(/\d+/).map { |number| -number.to_i }
    end
  end
end
