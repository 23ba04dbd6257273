# frozen_string_literal: true

module Bench
  module Reporting
    # Request bodies that are counted.
    class UploadReader < Reader
      KINDS = {
        "length" => ["A gigabyte with Content-Length", "s of CPU per GB"],
        "chunked" => ["A gigabyte in chunks of 64 KB", "s of CPU per GB"],
        "100 bytes" => ["A post of 100 bytes", "µs of CPU per request"],
        "10 KB" => ["A post of 10 KB", "µs of CPU per request"],
        "one-byte chunk" => ["A chunk of one byte", "µs of CPU per chunk"]
      }.freeze

      def charts
        turns = by_server
        KINDS.map do |kind, (title, unit)|
          there = turns.select { |_, kinds| kinds[kind] }.transform_values { |kinds| kinds.fetch(kind) }
          chart(key: Text.anchor(kind), title: title, unit: unit, absent: reasons(kind), row: "upload",
                bars: bars(there, more: { "peak MB" => pick("peak", 1e-6) }, &pick("cpu")))
        end
      end

      private

      # server => kind => rounds. Older results have a list for both in one.
      def by_server
        found = Hash.new { |servers, name| servers[name] = Hash.new { |kinds, kind| kinds[kind] = [] } }
        @data.fetch("turns").each do |label, rounds|
          server, kind = label.sub("octet", "byte").split(" ", 2)
          next found[server][kind] = rounds if KINDS.key?(kind)

          rounds.flat_map(&:to_a).each { |name, turn| found[label][name] << turn if turn } # what failed has none
        end
        found
      end

      def reasons(kind)
        failures = @data["failures"].to_h.select { |label, _| label.sub("octet", "byte").end_with?(" #{kind}") }
        @data["absent"].to_h.merge(failures.transform_keys { |label| label.split.first })
      end
    end
  end
end
