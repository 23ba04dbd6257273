# frozen_string_literal: true

require "zlib"

module Bench
  class Looks
    # Four workers that have answered on many routes: what one scrape costs the watch.
    class Scrape
      WORKERS = 4
      ROUTES = 40
      STATUSES = [200, 404, 500].freeze
      GOAL = 5 # ms
      FORMS = { "plain" => "identity", "gzip" => "gzip" }.freeze

      def initialize(rounds:, quick:, **)
        @rounds = rounds
        @scrapes = quick ? 20 : 100
        @connections = quick ? 40 : 200
        @found = Hash.new { |hash, form| hash[form] = [] }
      end

      def run
        warn "scrape: #{WORKERS} workers"
        Watched.open("scrape", workers: WORKERS) do |watched|
          @connections.times { traffic(watched.port) }
          @series = check(watched)
          @rounds.times { FORMS.each { |name, form| @found[name] << turn(watched, form) } }
        end
      end

      # @return [String] a table
      def render
        table = Table.new(["scrape", "CPU ms", "least", "wall ms", "bytes"])
        @found.each do |form, turns|
          used = turns.map { |turn| turn[:ms] }
          table.add(form, Statistics.median(used).round(2), used.min.round(2),
                    Statistics.median(turns.map { |turn| turn[:wall] }).round(1), turns.last[:bytes])
        end
        "one scrape of #{WORKERS} workers, #{ROUTES} routes, #{STATUSES.size} statuses, #{@series} lines " \
          "(goal: #{GOAL} ms)\n\n#{table}"
      end

      # @return [Hash] for the results file
      def to_h = { row: "scrape", workers: WORKERS, routes: ROUTES, lines: @series, turns: @found }

      private

      # On one connection, so that it is one worker's.
      def traffic(port)
        asked = Array.new(ROUTES) { |nth| "/things/#{nth}/#{STATUSES.sample}" }
        socket = TCPSocket.new("127.0.0.1", port)
        socket.write(asked.map { |path| "GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" }.join)
        socket.close_write
        answers = socket.read.scan("Hello World").size
        raise Failed, "#{answers} answers" unless answers == ROUTES
      ensure
        socket&.close
      end

      # All routes are there.
      def check(watched)
        text = watched.ask("/metrics").body
        routes = text.scan(%r{http_route="(/things/\d+/:id)"}).uniq.size
        raise Failed, "#{routes} routes in the metrics" unless routes == ROUTES

        text.lines.grep_v(/\A#/).size
      end

      def turn(watched, form)
        bytes = 0
        wall = nil
        used = watched.watch_used do
          begun = Clock.now
          @scrapes.times { bytes = fetch(watched, form) }
          wall = (Clock.now - begun) * 1000 / @scrapes
        end
        { ms: (used.nanoseconds / 1e6 / @scrapes).round(3), wall: wall.round(3), bytes: bytes }
      end

      # What has come over the wire.
      def fetch(watched, form)
        answer = watched.ask("/metrics", "Accept-Encoding" => form)
        right = form == "gzip" ? "gzip" : nil
        raise Failed, "#{form}: #{answer["content-encoding"]}" unless answer["content-encoding"] == right

        Integer(answer["content-length"])
      end
    end
  end
end
