# frozen_string_literal: true

module Bench
  module Reporting
    # One row of a chart: a server, a library or a setting, and what its rounds have given.
    class Bar
      # What is not Ruby, and answers without an app.
      YARDSTICKS = /\A(?:limit|nginx|h2o|node|go|bun|caddy)\b/

      # @return [String]
      attr_reader :name
      # @return [Array<Float>] a figure for each round
      attr_reader :rounds
      # @return [Hash{String => Object}] more figures, for the table
      attr_reader :more
      # @return [Array<String>, nil] row and name of its turns in the run's account, where these are not the chart's
      attr_reader :turns

      # @param ours [Boolean] whether it is Abaca
      # @param more [Hash{String => Object}] lists are rounds, whose median is shown
      def initialize(name:, rounds:, ours: name.start_with?("abaca"), more: {}, turns: nil)
        @name = name
        @rounds = rounds.compact.map(&:to_f)
        @ours = ours
        @lists = more.select { |_, value| value.is_a?(Array) }
        @more = more.merge(@lists.transform_values { |list| Statistics.median(list) }).compact
        @turns = turns
      end

      # @param column [String] of `more`
      # @return [Bar, nil] the same row by another of its figures, where that has rounds
      def by(column) = (Bar.new(name: name, rounds: @lists[column], ours: ours?) if @lists.key?(column))

      # @return [String] as people read it
      def title = name.sub(/\Aabaca\b/, "Abaca")

      def ours? = @ours
      def yardstick? = YARDSTICKS.match?(name)

      # @return [Symbol] :ours, :ruby or :other
      def kind
        return :ours if ours?

        yardstick? ? :other : :ruby
      end

      # @return [Numeric, nil] the median
      def value = Statistics.median(rounds)
      def low = rounds.min
      def high = rounds.max
      def spread? = rounds.size > 1 && low < high
    end
  end
end
