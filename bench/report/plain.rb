# frozen_string_literal: true

module Bench
  module Reporting
    # The figures of a benchmark that has no reader, as a table: the path to each figure, and the figure.
    class Plain
      MOST = 200 # rows

      # @return [Run]
      attr_reader :run

      # @param run [Run]
      def initialize(run)
        @run = run
      end

      # @return [Array<(String, String)>] where it is in the file, and what is there; of rounds the median
      def rows
        found = []
        walk(@run.data.except("benchmark", "machine"), [], found)
        found.first(MOST)
      end

      private

      def walk(value, path, found)
        case value
        when Hash then value.each { |key, inner| walk(inner, [*path, key], found) }
        when Array then list(value, path, found)
        else found << [path.join(" / "), shown(value)]
        end
      end

      # Rounds are a list of the same figures.
      def list(values, path, found)
        return found << [path.join(" / "), values.map { |value| shown(value) }.join(", ")] if values.none?(Enumerable)
        return medians(values, path, found) if rounds?(values)

        values.each_with_index { |value, nth| walk(value, [*path, name(value) || nth], found) }
      end

      def medians(rounds, path, found)
        rounds.first.each_key do |key|
          found << [[*path, key].join(" / "), Numbers.short(Statistics.median(rounds.map { |round| round[key] }))]
        end
      end

      def name(value) = value.is_a?(Hash) ? value.values_at("row", "name", "title").compact.first : nil

      def rounds?(values)
        values.all? do |value|
          value.is_a?(Hash) && value.any? && value.keys == values.first.keys && value.values.all?(Numeric)
        end
      end

      def shown(value) = value.is_a?(Numeric) ? Numbers.short(value) : value.to_s
    end
  end
end
