# frozen_string_literal: true

module Bench
  module Reporting
    # Streams of events that are handed on.
    class RelayReader < Reader
      CUT = 0.01 # share of streams that did not end, above which there is nothing to compare

      def charts
        cut, turns = @data.fetch("turns").partition { |_, rounds| cut?(rounds) }.map(&:to_h)
        common = { absent: @data["absent"].to_h.merge(cut.transform_values { |rounds| reason(total(rounds).first) }) }
        title = "#{Numbers.count(@data["streams"])} streams of events"
        more = { "streams" => pick("streams"), "peak MB" => pick("peak", 1e-6) }
        tail = { "p50 ms" => pick("p50", 0.001), "worst ms" => pick("worst", 0.001),
                 "gap p99 ms" => pick("gap_p99", 0.001) }
        [chart(key: "cpu", title: "#{title}: processor time", unit: "µs of CPU per event",
               bars: bars(turns, more: more, &pick("cpu")), row: "relay", **common),
         chart(key: "delay", title: "#{title}: how late an event is", unit: "ms at p99", lines: direct, row: "relay",
               bars: bars(turns, more: tail, &pick("p99", 0.001)), **common)]
      end

      private

      # Such a server has been asked for less than the others. The benchmark has left it in until now.
      def cut?(rounds)
        all = total(rounds).first
        all["streams"] - all["complete"] > all["streams"] * CUT
      end

      def reason(all) = "#{all["streams"] - all["complete"]} of #{Numbers.count(all["streams"])} streams did not end"

      # Nothing can be below what the client sees without a gateway.
      def direct
        rounds = @data.fetch("direct", []).map { |turn| turn["p99"] / 1000.0 }
        rounds.empty? ? [] : [Bar.new(name: "no gateway", rounds: rounds)]
      end
    end
  end
end
