# frozen_string_literal: true

module Bench
  module Reporting
    # Many connections whose requests wait: throughput, processor time and tail.
    class SleepersReader < Reader
      IDEAL = 10 # requests a second on each connection
      MORE = { "p50 ms" => ->(turn) { turn["p50"] / 1000.0 }, "p99 ms" => ->(turn) { turn["p99"] / 1000.0 } }.freeze

      def charts = @data.fetch("loads").flat_map { |load| of(load) }

      private

      def of(load)
        key = load.fetch("path").delete("/")
        turns = load.fetch("turns")
        common = { absent: load["absent"] || @data["absent"], row: load["title"] }
        ideal = Bar.new(name: "the ideal", rounds: [load.fetch("connections") * IDEAL])
        [chart(key: "#{key}-rate", title: load["title"], unit: "requests/s", better: :more, lines: [ideal],
               bars: bars(turns, more: MORE, &pick("per_second")), **common),
         chart(key: "#{key}-cpu", title: "#{load["title"]}: processor time", unit: "µs of CPU per request",
               bars: bars(turns, &pick("cpu")), **common),
         chart(key: "#{key}-tail", title: "#{load["title"]}: tail", unit: "ms at p99",
               bars: bars(turns, &pick("p99", 0.001)), **common)]
      end
    end
  end
end
