# frozen_string_literal: true

module Bench
  module Reporting
    # How many times as much one row has as another. Each round gives a ratio, since both had their turns within
    # seconds of each other; where the rounds do not match, the extremes of both count.
    class Ratio
      # @return [Float] the median, and the least and the greatest of the rounds
      attr_reader :value, :low, :high
      # @return [Integer] how many both have
      attr_reader :rounds

      # @param own [Bar]
      # @param other [Bar]
      # @param exact [Boolean] the figures are counted, so that one round is enough
      def initialize(own, other, exact: false)
        @exact = exact
        pairs = own.rounds.size == other.rounds.size ? own.rounds.zip(other.rounds) : []
        ratios = pairs.select { |pair| pair.all?(&:positive?) }.map { |first, second| first.fdiv(second) }
        @value = Statistics.median(ratios) || divided(own.value, other.value)
        @low, @high = ratios.empty? ? extremes(own, other) : ratios.minmax
        @rounds = [own.rounds.size, other.rounds.size].min
      end

      # @return [Boolean] whether it is known, as Bench::Ratio has it
      def stated?
        rounds = @exact ? 1 : @rounds
        !alone? && [value, low, high].all? && Bench::Ratio.told?(value, low, high, rounds: rounds)
      end

      # @return [Boolean] whether all rounds are above one, or all below
      def sided? = !alone? && low&.positive? && high && !1.between?(low, high)

      # @return [Boolean] whether there is one round, which says nothing of the spread
      def alone? = !@exact && @rounds < 2

      private

      def divided(own, other) = own && other&.positive? ? own.fdiv(other) : nil
      def extremes(own, other) = [divided(own.low, other.high), divided(own.high, other.low)]
    end
  end
end
