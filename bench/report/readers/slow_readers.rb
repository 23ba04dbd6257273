# frozen_string_literal: true

module Bench
  module Reporting
    # Memory for clients that have asked for much and do not read.
    class SlowReadersReader < Reader
      TITLES = { "shared" => "the same String for all", "fresh" => "a String for each",
                 "pieces" => "pieces of 64 KB" }.freeze

      def charts
        servers = @data.fetch("bytes_per_client")
        servers.values.first.keys.map do |kind|
          bars = servers.map { |name, cells| Bar.new(name: name, rounds: [cells[kind] / 1000.0]) }
          chart(key: kind, title: "#{Numbers.count(@data["clients"])} clients that do not read: " \
                                  "#{TITLES.fetch(kind, kind)}", unit: "KB per client", bars: bars, exact: true,
                absent: @data["absent"])
        end
      end
    end
  end
end
