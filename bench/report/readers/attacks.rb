# frozen_string_literal: true

module Bench
  module Reporting
    # Honest clients beside each attack on HTTP/2, beside clients that send the smallest pieces, and beside responses
    # without end. A run has some of these.
    class AttacksReader < Reader
      PROTOCOLS = { "http1" => "HTTP/1.1", "https" => "HTTP/1.1 with TLS", "h2c" => "HTTP/2",
                    "h2" => "HTTP/2 with TLS" }.freeze

      def charts
        [*(floods if @data.key?("attacks")), *@data.fetch("pieces", []).map { |row| pieces(row) },
         *(streams(@data["streams"]) if @data.key?("streams"))]
      end

      private

      def floods
        attacks = @data.fetch("attacks")
        bars = attacks.map { |name, figures| bar(name.tr("_", " "), figures) }
        alone = attacks.values.map { |figures| figures["alone"].first }
        chart(key: "beside", title: "Honest clients beside an attack", unit: "ms at p50", bars: bars,
              lines: [Bar.new(name: "without an attack", rounds: alone)], says: says(attacks, bars, median(alone)))
      end

      def pieces(row)
        protocol, clients = row["row"].split("-")
        more = { "p99 ms alone" => pick("alone_p99", 0.001), "p50 ms" => pick("beside_p50", 0.001),
                 "worst ms" => pick("worst", 0.001), "answered" => pick("answered"), "MB/s sent" => pick("sent", 1e-6) }
        senders = "#{clients} clients that send the smallest pieces over #{PROTOCOLS[protocol]}"
        chart(key: row["row"], title: "Beside #{senders}", unit: "ms at p99", absent: row["absent"], row: senders,
              bars: bars(row.fetch("turns"), more: more, &pick("beside_p99", 0.001)))
      end

      def streams(data)
        more = { "p99 ms alone" => pick("alone_p99", 0.001), "p99 ms" => pick("beside_p99", 0.001),
                 "worst ms while they begin" => pick("begin_worst", 0.001), "MB sent" => pick("bytes", 1e-6) }
        chart(key: "streams", title: "Beside #{Numbers.count(data["streams"])} responses without end",
              unit: "ms at worst", absent: data["absent"], row: "#{data["streams"]} responses without end",
              bars: bars(data.fetch("turns"), more: more, &pick("worst", 0.001)))
      end

      def says(attacks, bars, alone)
        worst = bars.max_by(&:value)
        failed, asked = %w[failed requests].map { |field| attacks.values.sum { |figures| figures[field] } }
        "Without an attack, half of the answers come within #{Numbers.short(alone)} ms; beside the worst one, " \
          "#{worst.name}, within #{Numbers.short(worst.value)} ms. #{Numbers.count(failed)} of " \
          "#{Numbers.count(asked)} requests failed."
      end

      def bar(name, figures)
        Bar.new(name: name, rounds: [figures["beside"].first], ours: true,
                more: { "p50 ms alone" => figures["alone"].first, "p99 ms" => figures["beside"].last,
                        "failed" => figures["failed"], "KB of memory" => figures["bytes"] / 1000.0 })
      end
    end
  end
end
