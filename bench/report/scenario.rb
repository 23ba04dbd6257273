# frozen_string_literal: true

require "yaml"

module Bench
  module Reporting
    # A benchmark as people see it: what it asks, its charts, and how to repeat it.
    Scenario = Struct.new(:name, :title, :about, :repeat, :charts, keyword_init: true) do
      # Of each chart the one on the newest Ruby.
      # @return [Array<Chart>]
      def main = charts.uniq(&:key)

      # @return [Hash{String => Array<Chart>}] the same charts on other Rubies
      def others = (charts - main).group_by(&:ruby)

      def measured? = charts.any?
      def anchor = Text.anchor(name)

      # @return [Array<String>] date, machine and settings of each run, the newest first
      def facts = charts.sort_by { |chart| chart.run.time }.reverse.map(&:facts).uniq
    end

    # All of them, in the order of the page.
    module Scenarios
      FILE = File.join(__dir__, "scenarios.yml")

      module_function

      # @param results [ResultsFolder]
      # @return [Array<Scenario>]
      def all(results)
        texts.map do |name, text|
          Scenario.new(name: name, charts: results.charts_of(name), **text.transform_keys(&:to_sym))
        end
      end

      # @return [Hash{String => Hash}]
      def texts = @texts ||= YAML.safe_load_file(FILE)
    end
  end
end
