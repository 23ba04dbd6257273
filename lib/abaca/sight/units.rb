# frozen_string_literal: true

require_relative "text"

module Abaca
  class Sight
    # Values as short texts: what a column's unit says decides how.
    module Units
      MB = 1024.0 * 1024
      # Scales for bytes.
      SCALES = [[1024**4, "T"], [1024**3, "G"], [1024**2, "M"], [1024, "K"]].freeze
      NONE = "-"
      private_constant :SCALES

      module_function

      # @param value [Object] nil: not known
      # @param unit [Symbol] :seconds, :span, :bytes, :rate, :percent, :mean, :count, :text, :time
      # @param ascii [Boolean] whether only ASCII may be shown
      # @return [String] safe to show
      def text(value, unit, ascii: false)
        return NONE if value.nil?

        case unit
        when :seconds then seconds(value)
        when :span then span(value)
        when :bytes then bytes(value)
        when :rate then number(value)
        when :percent, :mean then small(value)
        when :count then grouped(value)
        when :signed then format("%+.1f", value)
        when :time then value.strftime("%H:%M:%S")
        else Text.safe(value, ascii:)
        end
      end

      # How long something took, or takes so far: three digits.
      def seconds(value)
        return format("%.0fus", value * 1e6) if value < 0.001
        return format(value < 0.01 ? "%.1fms" : "%.0fms", value * 1e3) if value < 0.9995
        return format(value < 10 ? "%.1fs" : "%.0fs", value) if value < 600

        span(value)
      end

      # How long something lasts: two units.
      def span(value)
        value = value.to_i
        return "#{value}s" if value < 60
        return pair(value, 60, "m", 1, "s") if value < 3600
        return pair(value, 3600, "h", 60, "m") if value < 86_400

        pair(value, 86_400, "d", 3600, "h")
      end

      def pair(value, large, name, small, other)
        "#{value / large}#{name}#{(value % large / small).to_s.rjust(2, '0')}#{other}"
      end

      def bytes(value)
        scale, letter = SCALES.find { |size, _| value >= size }
        return "#{value.round}B" unless scale

        scaled = value / scale.to_f
        format(scaled < 10 ? "%.1f%s" : "%.0f%s", scaled, letter)
      end

      # 0.3, 12, 1,204.
      def number(value) = value < 10 && value.to_i != value ? format("%.1f", value) : grouped(value.round)

      def small(value) = value >= 100 ? grouped(value.round) : format("%.1f", value)

      def grouped(value) = value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",")

      private_class_method :pair, :number, :small, :grouped
    end
  end
end
