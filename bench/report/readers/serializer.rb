# frozen_string_literal: true

module Bench
  module Reporting
    # The output queue by itself, and servers that send, collect garbage, or echo.
    class SerializerReader < Reader
      COLUMNS = {
        "first" => "64 bytes written, 64 times into a new object", "again" => "64 bytes written into the same object",
        "shown" => "64 bytes written, shown and dropped", "schedule" => "A frozen String of 16 KB, queued",
        "cycle" => "64 bytes written and handed over",
        "serialize" => "64 bytes written and handed over, by the call for drivers"
      }.freeze

      def charts = @data.fetch("parts").values.flat_map { |part| of(part) }

      private

      def of(part)
        return cells(part.fetch("cells")) if part["cells"]
        return variants(part.fetch("variants")) if part["variants"]
        return gets(part) if part["per_request_at_exit"]

        echoes(part)
      end

      def cells(cells)
        cells.values.first.keys.map do |column|
          there = cells.select { |_, row| row.fetch(column, {})["ns_rounds"] }
          bars = there.map do |name, row|
            cell = row.fetch(column)
            Bar.new(name: name, rounds: cell["ns_rounds"], ours: name == "Outbox",
                    more: { "objects" => cell["objects"], "mallocs" => cell["mallocs"] })
          end
          subject = COLUMNS[column] || "Three ways to say empty, #{column} queued before each drain"
          loops, rows = bars.partition { |bar| bar.name == "nothing" }
          chart(key: "#{COLUMNS.key?(column) ? "ruby" : "empty"}-#{column}", title: subject, unit: "ns per operation",
                bars: rows, absent: reasons(cells, column), row: column,
                lines: loops.map { |bar| Bar.new(name: "the loop alone", rounds: bar.rounds) })
        end
      end

      def reasons(cells, column)
        cells.transform_values { |row| row.dig(column, "absent") }.reject { |_, reason| reason.to_s.empty? }
      end

      def variants(variants)
        variants.values.first.keys.map do |column|
          bars = variants.map { |name, row| Bar.new(name: name, rounds: [row.dig(column, "ns_least")]) }
          chart(key: "c-#{column}", title: "Three ways to say empty in C, #{column} queued",
                unit: "ns, the least of all rounds", bars: bars)
        end
      end

      def gets(part)
        size = part["body_bytes"] || part["body_octets"]
        title = "#{Numbers.count(size)} bytes to #{part["connections"]} connections"
        turns = part["turns"] || part.fetch("rounds_of")
        common = { absent: part["absent"], row: "gets" }
        [chart(key: "gets-cpu", title: "#{title}: processor time", unit: "µs of CPU per request",
               bars: bars(turns, &pick("cpu_us")), **common),
         chart(key: "gets-rate", title: "#{title}: throughput", unit: "requests/s", better: :more,
               bars: bars(turns, more: { "mean ms" => pick("mean_ms") }, &pick("per_second")), **common),
         chart(key: "gets-gc", title: "#{title}: garbage collection", unit: "µs of GC per request", **common,
               bars: collected(part.fetch("per_request_at_exit"), turns))]
      end

      # Older results have the time of all rounds alone, which says nothing of how they differ.
      def collected(counters, turns)
        counters.map do |name, row|
          rounds = turns.fetch(name, []).filter_map { |round| round["gc_us"] }
          rounds << (row["time"] * 1000) if rounds.empty?
          Bar.new(name: name, rounds: rounds, more: { "objects" => row["total_allocated_objects"] })
        end
      end

      def echoes(part)
        turns = part.fetch("turns")
        title = "#{Numbers.count(part["megabytes"])} MB posted and echoed"
        more = { "MB/s there" => pick("up"), "MB/s back" => pick("down"), "peak MB" => pick("peak", 1e-6) }
        common = { absent: part["absent"], row: "echoes" }
        [chart(key: "echo-cpu", title: "#{title}: processor time", unit: "s of CPU per GB",
               bars: bars(turns, more: more, &pick("cpu")), **common),
         chart(key: "echo-peak", title: "#{title}: memory", unit: "MB at most",
               bars: bars(turns, &pick("peak", 1e-6)), **common)]
      end
    end
  end
end
