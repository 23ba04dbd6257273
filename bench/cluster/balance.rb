# frozen_string_literal: true

module Bench
  module Cluster
    # Two workers and requests of unequal length: how much more does the busiest do?
    class Balance < Row
      # Connections that stay, and what each of their requests counts to: of 0.2 and of 8 ms, about.
      LOADS = { 24 => 25_000, 6 => 1_000_000 }.freeze
      Turn = Struct.new(:busiest, :least, :requests, :p99, keyword_init: true)

      def title
        loads = LOADS.map { |connections, count| "#{connections} connections count to #{count}" }
        "Busiest to least busy of two workers: #{loads.join(", ")}"
      end

      private

      def settings
        [["abaca", { settings: { workers: 2 } }, "abaca"], ["puma", { workers: 2 }, "puma"]]
      end

      def columns = ["median", "worst", "requests", "p99 ms of the short"]

      def cells(turns)
        ratios = turns.map { |turn| turn.busiest.fdiv(turn.least) }
        [Statistics.median(ratios).round(2), ratios.max.round(2), median(turns, :requests).round,
         milliseconds(median(turns, :p99))]
      end

      # Each worker's time, of both loads at once.
      def measure(entry)
        meters = CpuMeter.family(entry.child.pid).drop(1).map { |pid| CpuMeter.new(pid).start }
        found = LOADS.map { |connections, count| Thread.new { load(entry, connections, count) } }.map(&:value)
        used = meters.map { |meter| meter.stop.nanoseconds }.sort
        raise Failed, "#{used.size} workers, not 2" unless used.size == 2

        Turn.new(busiest: used.last, least: used.first, requests: found.sum { |one| one[:answers] },
                 p99: found.first[:p99])
      end

      def load(entry, connections, count)
        seconds = @quick ? 1 : 4
        figures("rounds", entry.port.to_s, connections.to_s, seconds.to_s, "/burn/#{count}").tap do |found|
          raise Failed, "#{found[:failed]} answers were not 200" if found[:failed].positive?
        end
      end
    end
  end
end
