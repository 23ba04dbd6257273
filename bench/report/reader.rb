# frozen_string_literal: true

module Bench
  module Reporting
    # Makes charts of a result. Each benchmark has a reader of its own, since each has its own figures.
    class Reader
      # Of a burst: requests that were refused, lost, or answered wrongly.
      LOST = %w[refused wrong dropped unanswered].freeze
      NOT_RIGHT = { "not right" => ->(turn) { turn.values_at(*LOST).sum(&:to_i) } }.freeze

      # @param run [Run]
      def initialize(run)
        @run = run
        @data = run.data
      end

      # @return [Array<Chart>]
      def charts
        raise NotImplementedError
      end

      private

      def chart(key:, title:, unit:, bars:, **rest)
        Chart.new(run: @run, key: key, title: title, unit: unit, bars: bars, **rest)
      end

      # @param turns [Hash{String => Array<Hash>}] the rounds of each row
      # @param more [Hash{String => #call}] columns of the table: what is taken from a round; the median counts
      # @param sums [Hash{String => #call}] more of them; all rounds count, because one in any of them matters
      # @yieldparam turn [Hash] a round
      # @yieldreturn [Numeric] the figure
      # @return [Array<Bar>]
      def bars(turns, more: {}, sums: {}, ours: nil, &figure)
        turns.map do |name, rounds|
          rest = more.transform_values { |pick| rounds.filter_map { |round| pick.call(round) } }
          rest.update(sums.transform_values { |pick| rounds.sum { |round| pick.call(round) } })
          mark = ours ? { ours: ours.call(name) } : {}
          Bar.new(name: name, rounds: rounds.map(&figure), more: rest, **mark)
        end
      end

      # @return [Array<Hash>] one round that has the sums of all
      def total(rounds) = [rounds.first.to_h { |name, _| [name, rounds.sum { |round| round[name] }] }]

      # A round that an older result has as the text of a Struct.
      def read(round)
        round.is_a?(String) ? round.scan(/(\w+)=([\d.]+)/).to_h { |name, figure| [name, Float(figure)] } : round
      end

      # A figure of a round, perhaps in another unit.
      def pick(name, factor = 1) = ->(turn) { turn[name]&.*(factor) }

      def median(values) = Statistics.median(values)

      # The rows of a benchmark that has several, by name.
      def rows = @data.fetch("rows", [])
    end
  end
end
