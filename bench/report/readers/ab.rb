# frozen_string_literal: true

module Bench
  module Reporting
    # The same load that measured the first pool of fiber stacks.
    class AbReader < Reader
      def charts
        turns = @data.fetch("turns")
        common = { absent: @data["absent"] }
        more = { "mean ms" => pick("mean"), "p50 ms" => pick("p50"), "failed" => pick("failed") }
        [chart(key: "cpu", title: "ab -c 256: processor time", unit: "µs of CPU per request",
               bars: bars(turns, &pick("cpu")), **common),
         chart(key: "rate", title: "ab -c 256: throughput", unit: "requests/s", better: :more,
               bars: bars(turns, more: more, &pick("per_second")), **common),
         chart(key: "tail", title: "ab -c 256: tail", unit: "ms at p99",
               bars: bars(turns, more: { "slowest ms" => pick("slowest") }, &pick("p99")), **common)]
      end
    end
  end
end
