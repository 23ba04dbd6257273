# frozen_string_literal: true

module Bench
  # How many times as much one has needed as another, by the rounds in which both had their turns. It is told only where
  # it is known: the rounds must differ less among themselves than the two do.
  class Ratio
    # Two rounds are close to each other by chance too often: of two that are equal, one of three pairs would be told
    # apart. If the ratio must be so many times as far from one, it is one of ten, as with three rounds; with five, one
    # of a hundred.
    TWO = 3

    # Both are measured as factors: from 0.5 to 1 is as far as from 1 to 2.
    #
    # @param value [Numeric] a ratio
    # @param low [Numeric] the least of the rounds
    # @param high [Numeric] the greatest of them
    # @param rounds [Integer] how many there are
    # @return [Boolean] whether the rounds differ less among themselves than the ratio differs from one
    def self.told?(value, low, high, rounds:)
      return false unless value.positive? && low.positive?

      (Math.log(high) - Math.log(low)) * (rounds == 2 ? TWO : 1) <= Math.log(value).abs
    end

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

    # @return [Boolean] whether it is known. One round has no spread that is.
    def told? = rounds.size > 1 && self.class.told?(median, *rounds.minmax, rounds: rounds.size)

    # @return [Float, nil] the median, if it may be told
    def value = (median if told?)

    # @return [String, nil] for a cell of a table
    def cell = (format(median < 10 ? "%.2f" : "%.1f", median) if told?)
  end
end
