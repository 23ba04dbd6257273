# frozen_string_literal: true

module Abaca
  class Sight
    # Whether a figure grows: the slope of its last samples, by least squares.
    class Trend
      # An hour, with a sample each ten seconds.
      MOST = 360
      # A slope of fewer says nothing.
      LEAST = 6
      private_constant :MOST, :LEAST

      def initialize
        @samples = []
      end

      # @param at [Float] seconds
      # @param value [Numeric]
      def add(at, value)
        @samples << [at, value]
        @samples.shift if @samples.size > MOST
      end

      # @return [Float, nil] what it grows by in a second; nil: too few samples
      def slope
        return if @samples.size < LEAST

        mean_at, mean = @samples.transpose.map { |list| list.sum.fdiv(list.size) }
        square = @samples.sum { |at, _| (at - mean_at)**2 }
        square.positive? ? @samples.sum { |at, value| (at - mean_at) * (value - mean) } / square : nil
      end
    end
  end
end
