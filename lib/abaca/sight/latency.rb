# frozen_string_literal: true

module Abaca
  class Sight
    # A histogram: how many of what took how long, and its quantiles.
    class Latency
      # Buckets have eight bounds for each doubling, so a quantile is right to 5 %.
      EACH = 8.0
      # Those of Page::Slot#series that have no number: below all others, and beyond them.
      ENDS = { least: -112, most: 57 }.freeze
      private_constant :EACH, :ENDS

      # @return [Integer]
      attr_reader :size

      # @return [Boolean]
      def empty? = @size.zero?

      def initialize
        @buckets = Hash.new(0)
        @size = 0
      end

      # @param buckets [Hash{Integer, Symbol => Integer}] as Page::Slot#series has them
      # @param before [Hash{Integer, Symbol => Integer}, nil] what of these is old
      # @return [self]
      def add(buckets, before = nil)
        buckets.each do |name, count|
          count -= before.fetch(name, 0) if before
          next unless count.positive?

          @buckets[ENDS.fetch(name, name)] += count
          @size += count
        end
        self
      end

      # @param share [Float] 0.5 is the median
      # @return [Float, nil] seconds; nil if there was nothing
      def quantile(share)
        left = (@size * share).ceil
        return if left.zero?

        number = @buckets.keys.sort.find { |one| (left -= @buckets[one]) <= 0 }
        2**((number - 0.5) / EACH)
      end
    end
  end
end
