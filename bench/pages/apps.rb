# frozen_string_literal: true

module Bench
  module Pages
    # An app with pages: /page/N and /burn/N do N units of work, so that a page is the same work for every server.
    class App
      SECONDS = 2 # of one measurement

      # @param ruby [Ruby]
      def initialize(ruby:)
        @ruby = ruby
        @units = {}
      end

      # Environment variables for the server.
      # @param entry [Field::Entry]
      def env(_entry) = {}

      # Whether results go to tmp/ instead of bench/results.
      def synthetic? = false

      # Installs the gems that the app needs, and fills its database.
      # @raise [Unavailable]
      def prepare; end

      # @return [String] as given to --app
      def name = self.class.name.split("::").last.downcase

      # @return [Array<String>] the kinds of requests that have been calibrated
      def calibrated = @units.keys

      # @return [String, nil] the path, which identifies the work in the results file; nil if it is not calibrated
      def work(kind, milliseconds)
        path_of(kind, milliseconds) if calibrated.include?(kind)
      rescue Failed
        nil
      end

      # Measures the CPU time of one unit of work, with one request at a time.
      #
      # @param kind [String] page or burn
      # @param entry [Field::Entry] a server that runs it
      def calibrate(kind, entry)
        low, high = self.class::PROBES.fetch(kind)
        less, more = [low, high].map { |units| microseconds("/#{kind}/#{units}", entry) }
        raise Failed, "#{kind}: #{high} units cost no more than #{low}" unless more > less

        @units[kind] = { each: (more - less) / (high - low), base: less, low: low }
      end

      # @param kind [String] page or burn
      # @param milliseconds [Integer] of processor time that a request shall take
      # @return [String] the request's path
      # @raise [Failed] for a page that is shorter than the shortest one
      def path_of(kind, milliseconds)
        found = @units.fetch(kind)
        units = found[:low] + (((milliseconds * 1000) - found[:base]) / found[:each]).round
        return "/#{kind}/#{units}" if units.positive?

        raise Failed, "the shortest #{kind} takes #{(found[:base] / 1000.0).round(1)} ms"
      end

      private

      # Of one request.
      def microseconds(path, entry)
        used = nil
        found = Load.new(port: entry.port, page: path).run(pages: 1, seconds: SECONDS, warm: Load::WARM) do
          meter = ServerMeter.new(entry.child).start
          -> { used = meter.stop }
        end
        raise Failed, "#{path} is not answered with 200" if found[:page].zero? || found[:wrong].positive?

        used.cpu.fdiv(found[:page])
      end
    end

    # apps/pages.ru: no gem but rack is needed.
    class Synthetic < App
      PROBES = { "page" => [10, 100], "burn" => [10, 100] }.freeze

      def path = File.join(DIR, "apps", "pages.ru")
      def light = "/light"
      def title = "pages without a framework"
      def synthetic? = true
    end
  end
end
