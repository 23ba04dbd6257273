# frozen_string_literal: true

module Bench
  module Reporting
    # A master and its workers: boot, memory, throughput, balance.
    class ClusterReader < Reader
      def charts = rows.flat_map { |row| known?(row) ? Array(send(row["row"], row)) : [] }

      private

      ROWS = %w[boot memory burn hello balance crowd].freeze
      private_constant :ROWS

      def known?(row) = ROWS.include?(row["row"])

      def made(row, key: row["row"], **rest, &figure)
        chart(key: key, bars: bars(row.fetch("turns"), more: rest.delete(:more) || {}, &figure), absent: row["absent"],
              part: row["ruby"], **rest)
      end

      def boot(row)
        made(row, title: "Boot to the first answer", unit: "ms", more: { "resident MB" => pick("resident", 1e-6) },
             &pick("boot", 1000))
      end

      def memory(row)
        made(row, title: "A Rails application on four workers, after load", unit: "MB by PSS",
                  more: { "MB before" => pick("before", 1e-6) }, &pick("after", 1e-6))
      end

      def burn(row) = throughput(row, "A millisecond of computing per request")
      def hello(row) = throughput(row, "Hello world")

      def throughput(row, title)
        made(row, title: "#{title}, 1 worker and 2", unit: "requests/s", better: :more, ours: "abaca, 2",
                  more: { "CPU µs" => pick("cpu"), "p99 ms" => pick("p99", 0.001) }, &pick("per_second"))
      end

      def balance(row)
        made(row, title: "Light and heavy connections: busiest worker to the other", unit: "times as busy") do |turn|
          turn["busiest"].fdiv(turn["least"])
        end
      end

      # Where all connections are on one worker.
      def crowd(row)
        lopsided = row.fetch("turns").select { |label, _| label.end_with?("all on one") }
        ["1 ms", "0.2 ms"].filter_map do |work|
          turns = lopsided.select { |label, _| label.split(", ")[-2] == work }
          turns = turns.transform_keys { |label| label.sub(", #{work}, all on one", "").sub("abaca, ", "abaca ") }
          next if turns.empty?

          chart(key: "crowd-#{Text.anchor(work)}", title: "50 connections, all on one of two workers, #{work} each",
                unit: "ms at p99", part: row["ruby"],
                bars: bars(turns, more: { "requests/s" => pick("per_second") }, &pick("p99", 0.001)))
        end
      end
    end
  end
end
