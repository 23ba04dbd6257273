# frozen_string_literal: true

module Bench
  # How many times as much one has needed as another, by the rounds in which both had their turns. It is told only where
  # it is known: the rounds must differ less among themselves than the two do.
  class Ratio
    # @return [Array<Float>] one of each round
    attr_reader :rounds

    # @param own [Array<Numeric>] one figure of each round; nil where there is none
    # @param other [Array<Numeric>] the same of whom it is compared with
    def initialize(own, other)
      pairs = Array(own).zip(Array(other)).select { |pair| pair.all? { |value| value&.positive? } }
      @rounds = pairs.map { |mine, theirs| mine.fdiv(theirs) }
    end

    # @return [Float, nil] the median
    def median = Statistics.median(rounds)

    # @return [Float, nil] from the lowest to the highest
    def spread = Statistics.spread(rounds)

    # @return [Boolean] whether the spread is smaller than the difference. One round has no spread that is known.
    def told? = !spread.nil? && spread < (median - 1).abs

    # @return [Float, nil] the median, if it may be told
    def value = (median if told?)

    # @return [String, nil] for a cell of a table
    def cell = (format(median < 10 ? "%.2f" : "%.1f", median) if told?)
  end
end
