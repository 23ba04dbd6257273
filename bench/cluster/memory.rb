# frozen_string_literal: true

require_relative "../rails/rails_gems"

module Bench
  module Cluster
    # Four preloaded workers with a Rails application: their memory before and after load.
    class Memory < Row
      WORKERS = 4
      PATH = "/parcels"
      CONNECTIONS = 32
      Turn = Struct.new(:before, :after, :resident, :requests, keyword_init: true)

      def title = "A Rails application on #{WORKERS} preloaded workers, memory by PSS"

      private

      def settings
        [["abaca", { settings: { workers: WORKERS } }, "abaca"], ["puma", { workers: WORKERS }, "puma"]]
      end

      def app = File.join(ROOT, "test", "frameworks", "rails", "config.ru")
      def right?(port) = Probe.get(port: port, path: PATH)&.status == 200

      def env
        @gems ||= RailsGems.of(@ruby)
        @gems.install
        @gems.production
      end

      def columns = ["before load MB", "after load MB", "RSS MB", "requests"]

      def cells(turns)
        [*%i[before after resident].map { |field| (median(turns, field) / 1e6).round(1) },
         median(turns, :requests).round]
      end

      def measure(entry)
        before = entry.child.proportional
        found = figures("rounds", entry.port.to_s, CONNECTIONS.to_s, (@quick ? 2 : 10).to_s, PATH)
        raise Failed, "#{found[:failed]} answers were not 200" if found[:failed].positive?

        Turn.new(before: before, after: entry.child.proportional, resident: entry.child.resident,
                 requests: found[:answers])
      end
    end
  end
end
