# frozen_string_literal: true

module Bench
  module Reporting
    # An application in Rails: a list, a form, and a page that waits.
    class RailsReader < Reader
      PAGES = { "list" => "a list", "form" => "a form", "wait" => "50 ms of waiting" }.freeze
      DATABASES = { "sqlite" => "SQLite", "postgresql" => "PostgreSQL" }.freeze
      MORE = { "requests/s" => ->(turn) { turn["per_second"] }, "p50 ms" => ->(turn) { turn["p50"] / 1000.0 },
               "p99 ms" => ->(turn) { turn["p99"] / 1000.0 }, "MB" => ->(turn) { turn["resident"]&./(1e6) } }.freeze

      def charts
        @data.fetch("parts").flat_map do |database, part|
          PAGES.keys.flat_map { |page| of(database, part, page) }
        end
      end

      private

      def of(database, part, page)
        turns = part.fetch("turns").transform_values { |rounds| rounds.filter_map { |round| read(round[page]) } }
        title = "#{DATABASES.fetch(database, database)}, #{PAGES.fetch(page)}"
        common = { absent: part["absent"], row: database }
        cpu = chart(key: "#{database}-#{page}-cpu", title: "#{title}: processor time", unit: "µs of CPU per request",
                    bars: bars(turns, more: MORE, &pick("cpu")), **common)
        rate = chart(key: "#{database}-#{page}-rate", title: "#{title}: throughput", unit: "requests/s", better: :more,
                     bars: bars(turns, more: MORE.except("requests/s"), &pick("per_second")), **common)
        [cpu, rate]
      end
    end
  end
end
