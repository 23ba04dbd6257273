# frozen_string_literal: true

module Bench
  module Reporting
    # Figures as people read them: three digits, thousands apart; those that are counted as they are.
    module Numbers
      module_function

      # @param value [Numeric, nil]
      # @return [String] "1,234", "123", "12.3", "1.23" or "0.012"; a dash for nil
      def short(value)
        return "–" if value.nil?
        return "-#{short(-value)}" if value.negative?
        return thousands(value) if value.is_a?(Integer)
        return thousands(value.round) if value >= 99.95

        format("%.#{decimals(value)}f", value)
      end

      # @param value [Numeric, nil]
      # @return [String] "10" or "1,000", of what is counted
      def count(value) = value ? thousands(value.round) : "?"

      # @param value [Numeric] how many times as much
      # @return [String] "1.40", "12.5" or "125"
      def ratio(value) = value < 1 ? format("%.2f", value) : short(value)

      # @param value [Integer]
      # @return [String]
      def thousands(value) = value.to_s.reverse.scan(/\d{1,3}/).join(",").reverse

      def decimals(value)
        return 0 if value.zero?
        return 1 if value >= 9.995

        value >= 0.0995 ? 2 : [1 - Math.log10(value).floor, 9].min
      end
      private_class_method :decimals
    end
  end
end
