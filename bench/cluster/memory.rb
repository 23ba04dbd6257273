# frozen_string_literal: true

module Bench
  module Cluster
    # Four preloaded workers with a Rails application: their memory before and after load.
    class Memory < Row
      FOLDER = File.join(ROOT, "test", "frameworks", "rails")
      WORKERS = 4
      PATH = "/parcels"
      CONNECTIONS = 32
      Turn = Struct.new(:before, :after, :resident, :requests, keyword_init: true)

      def title = "A Rails application on #{WORKERS} preloaded workers, memory by PSS"

      private

      def settings
        [["abaca", { settings: { workers: WORKERS } }, "abaca"], ["puma", { workers: WORKERS, bundled: true }, "puma"]]
      end

      def app = File.join(FOLDER, "config.ru")
      def right?(port) = Probe.get(port: port, path: PATH)&.status == 200

      # The bundle is the application's, for both.
      def env
        { "GEM_HOME" => nil, "GEM_PATH" => nil, "RUBYOPT" => "-rbundler/setup", "RAILS_ENV" => "production",
          "RACK_ENV" => "production", "BUNDLE_GEMFILE" => File.join(FOLDER, "Gemfile") }
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
