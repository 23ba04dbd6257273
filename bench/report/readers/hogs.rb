# frozen_string_literal: true

module Bench
  module Reporting
    # Light requests beside one and beside eight that compute.
    class HogsReader < Reader
      TITLES = { "1" => "one request that computes", "8" => "eight requests that compute" }.freeze
      MORE = { "p50 ms" => ->(turn) { turn["p50"] / 1000.0 }, "p99 ms" => ->(turn) { turn["p99"] / 1000.0 },
               "light requests" => ->(turn) { turn["lights"] }, "lost" => ->(turn) { turn["lost"] } }.freeze

      def charts
        numbers = @data.fetch("turns").values.flatten.flat_map(&:keys).uniq
        numbers.map do |number|
          turns = @data["turns"].transform_values { |rounds| rounds.filter_map { |round| read(round[number]) } }
          hogs = TITLES.fetch(number, "#{number} that compute")
          chart(key: number, title: "The slowest light request beside #{hogs}",
                unit: "ms at worst", bars: bars(turns, more: MORE, &pick("worst", 0.001)), absent: @data["absent"],
                part: @data["ruby"], row: "hogs")
        end
      end
    end
  end
end
