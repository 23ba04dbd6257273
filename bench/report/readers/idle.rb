# frozen_string_literal: true

module Bench
  module Reporting
    # Connections that are silent.
    class IdleReader < Reader
      TITLES = { "plain" => "HTTP/1.1", "tls" => "HTTP/1.1 with TLS", "h2" => "HTTP/2 with TLS",
                 "many" => "HTTP/1.1" }.freeze

      def charts = rows.flat_map { |row| of(row) }

      private

      def of(row)
        name = TITLES.fetch(row["row"], row["row"])
        count = Numbers.count(row["idle"])
        turns = row.fetch("turns")
        common = { absent: row["absent"], row: "#{row["row"]}: #{row["idle"]} idle connections" }
        more = { "p50 ms" => pick("beside_p50", 0.001), "p99 ms alone" => pick("alone_p99", 0.001) }
        [chart(key: "#{row["row"]}-memory", title: "#{name}: memory of each of #{count} idle connections",
               unit: "bytes", exact: true, **common,
               bars: bars(turns, more: { "still open" => pick("alive") }, &pick("bytes"))),
         chart(key: "#{row["row"]}-tail", title: "#{name}: 50 active connections beside #{count} idle ones",
               unit: "ms at p99", bars: bars(turns, more: more, &pick("beside_p99", 0.001)), **common)]
      end
    end
  end
end
