# frozen_string_literal: true

module Abaca
  class Sight
    # How many of what took how long, and percentiles: series of the page (Page::Times), those of several workers added,
    # and what they had counted before taken off.
    class Latency
      # Counters of a series beside its buckets: below all of them, beyond them, and all.
      OTHERS = %i[least most count].freeze
      private_constant :OTHERS

      def initialize
        @sum = { least: 0, most: 0, count: 0, buckets: Hash.new(0) }
      end

      # @return [Integer]
      def size = @sum[:count]

      # @return [Boolean]
      def empty? = size.zero?

      # @param series [Hash{Symbol => Object}] as Page::Slot#series has it
      # @param before [Hash{Symbol => Object}, nil] the same at an earlier look
      # @return [self]
      def add(series, before = nil)
        OTHERS.each { |key| grow(@sum, key, series[key], before&.fetch(key)) }
        series[:buckets].each { |bucket, count| grow(@sum[:buckets], bucket, count, before&.dig(:buckets, bucket)) }
        self
      end

      # @param share [Float] 0.5 is the median
      # @return [Float, nil] seconds, as Page::Times.quantile; nil if there was nothing
      def quantile(share) = Page::Times.quantile(@sum, share)

      private

      # Counters do not fall; a page that has begun anew has begun at nothing.
      def grow(sum, key, now, before) = sum[key] += [now - before.to_i, 0].max
    end
  end
end
