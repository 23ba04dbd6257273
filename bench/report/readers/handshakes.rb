# frozen_string_literal: true

module Bench
  module Reporting
    # What others notice of TLS handshakes.
    class HandshakesReader < Reader
      def charts
        more = { "p50 ms alone" => pick("alone_p50", 0.001), "p99 ms beside" => pick("beside_p99", 0.001),
                 "handshakes" => pick("handshakes"), "late" => pick("late") }
        [chart(key: "beside", title: "50 clients without TLS beside #{@data["rate"]} handshakes a second",
               unit: "ms at p50", bars: bars(@data.fetch("turns"), more: more, &pick("beside_p50", 0.001)),
               absent: @data["absent"])]
      end
    end
  end
end
