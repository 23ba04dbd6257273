# frozen_string_literal: true

module Bench
  module Reporting
    # Fresh requests beside clients that send or read slowly.
    class SlowClientsReader < Reader
      TITLES = { "length" => "three bytes of a body of 50", "chunks" => "three bytes of a chunk",
                 "long" => "three bytes of a body of 100 KB", "longer" => "three bytes of a body of a megabyte",
                 "half" => "half a body", "unread" => "10 MB that they do not read" }.freeze

      def charts
        kinds = @data.fetch("modes").values.flat_map(&:keys).uniq
        kinds.map { |kind| of(kind) }
      end

      private

      def of(kind)
        bars = @data.fetch("modes").filter_map do |mode, cells|
          cell = cells[kind] or next
          more = { "p50 ms" => cell["p50"], "worst ms" => cell["max"], "not 200" => cell["failed"],
                   "bytes per slow client" => cell["bytes"] }
          Bar.new(name: "abaca #{mode}", rounds: [cell["p99"]], more: more.compact)
        end
        chart(key: kind, title: "New requests beside #{crowd(kind)}", unit: "ms at p99", bars: bars)
      end

      def crowd(kind)
        kind == "none" ? "nobody else" : "#{Numbers.count(@data["clients"])} clients with #{TITLES.fetch(kind, kind)}"
      end
    end
  end
end
