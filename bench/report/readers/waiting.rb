# frozen_string_literal: true

module Bench
  module Reporting
    # A burst of requests that all wait for an upstream.
    class WaitingReader < Reader
      MORE = { "p50 ms" => ->(turn) { turn["p50"] / 1000.0 }, "p99 ms" => ->(turn) { turn["p99"] / 1000.0 } }.freeze

      def charts
        turns = @data["turns"] || @data.fetch("bursts")
        count = Numbers.count(@data["requests"])
        title = "#{count} requests at once, each waits #{@data["upstream_delay_ms"]} ms for an upstream"
        common = { absent: @data["absent"] }
        [chart(key: "wall", title: "#{title}: until the last answer", unit: "ms",
               bars: bars(turns, more: MORE, sums: NOT_RIGHT, &pick("wall", 0.001)), **common),
         chart(key: "cpu", title: "#{title}: processor time", unit: "µs of CPU per request",
               bars: bars(turns, &pick("cpu")), **common)]
      end
    end
  end
end
