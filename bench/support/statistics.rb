# frozen_string_literal: true

module Bench
  # Order statistics; each is nil for an empty list.
  module Statistics
    module_function

    def median(values)
      return nil if values.empty?

      sorted = values.sort
      middle = sorted.size / 2
      sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
    end

    # @return [Numeric, nil] from the lowest to the highest; nil for a single one
    def spread(values) = values.size > 1 ? values.max - values.min : nil

    # @param percent [Numeric] 0 to 100; the nearest rank
    def percentile(values, percent)
      return nil if values.empty?

      values.sort[((values.size * percent / 100.0).ceil - 1).clamp(0, values.size - 1)]
    end
  end
end
