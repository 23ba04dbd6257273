# frozen_string_literal: true

module Abaca
  class Page
    # What can be done with series, which are Hashes (Slot#series): added, taken off, asked for a percentile.
    module Times
      COUNTERS = %i[count sum least most].freeze
      # Where bucket i ends, in seconds: 2^(i/8).
      FIRST = 2.0**-14
      LAST = 2.0**7
      private_constant :COUNTERS, :FIRST, :LAST

      class << self
        # @param some [Array<Hash>] series of one kind of times
        # @return [Hash] their sum, with what else the first one says
        def sum(some)
          some.drop(1).reduce(copy(some.first)) { |all, one| change(all, one, :+) }
        end

        # @param series [Hash]
        # @param before [Hash] the same series, at an earlier look
        # @return [Hash] what was counted meanwhile
        def since(series, before) = change(copy(series), before, :-)

        # @param series [Hash]
        # @param part [Float] 0.99: so much of all times is not longer
        # @return [Float, nil] seconds, an eighth of an octave too long at most; nil if nothing was counted. Times
        #   beyond 128 s count as that.
        def quantile(series, part)
          rank = [(series[:count] * part).ceil, 1].max
          below = series[:least]
          return if series[:count].zero?
          return FIRST if below >= rank

          series[:buckets].sort.each { |bucket, count| return 2.0**(bucket / 8.0) if (below += count) >= rank }
          LAST
        end

        private

        def copy(series) = series.merge(counts: series[:counts].dup, buckets: series[:buckets].dup)

        def change(series, other, operator)
          COUNTERS.each { |key| series[key] = series[key].public_send(operator, other[key]) }
          series[:counts] = series[:counts].zip(other[:counts]).map { |pair| pair.reduce(operator) }
          other[:buckets].each do |bucket, count|
            series[:buckets][bucket] = series[:buckets].fetch(bucket, 0).public_send(operator, count)
          end
          series[:buckets].reject! { |_, count| count.zero? }
          series
        end
      end
    end
  end
end
