# frozen_string_literal: true

module Bench
  module Cluster
    # Two workers beside one: requests that compute, of which the client's share is small, and hello world, where it is
    # not.
    class Burn < Row
      CONNECTIONS = 16
      COUNT = 120_000 # about a millisecond
      Turn = Struct.new(:per_second, :cpu, :p50, :p99, keyword_init: true)

      def title = "Two workers beside one: a millisecond of computing, #{CONNECTIONS} connections"

      private

      def settings
        [1, 2].map { |n| ["abaca", { settings: { workers: n } }, "abaca, #{n}"] } +
          [1, 2].map { |n| ["puma", { workers: n }, "puma, #{n}"] }
      end

      def path = "/burn/#{COUNT}"
      def columns = ["requests/s", "to one worker's", "CPU µs", "p50 ms", "p99 ms"]

      def cells(turns)
        [median(turns, :per_second).round, to_one(turns), median(turns, :cpu).round(1),
         milliseconds(median(turns, :p50)), milliseconds(median(turns, :p99))]
      end

      # The median of what the rounds have given.
      def to_one(turns)
        server = @field.turns.key(turns)[/\A\w+/]
        Ratio.new(turns.map(&:per_second), @field.turns.fetch("#{server}, 1", []).map(&:per_second)).cell
      end

      def measure(entry)
        meter = CpuMeter.new(entry.child.pid).start
        found = figures("rounds", entry.port.to_s, CONNECTIONS.to_s, (@quick ? 1 : 3).to_s, path)
        used = meter.stop
        raise Failed, "#{found[:failed]} answers were not 200" if found[:failed].positive?

        Turn.new(per_second: found[:requests] * 1e6 / found[:microseconds], p50: found[:p50], p99: found[:p99],
                 cpu: used.nanoseconds / 1e3 / found[:answers])
      end
    end

    # The same without work: here the client takes much of two processors itself.
    class Hello < Burn
      def title = "Two workers beside one: hello world, #{CONNECTIONS} connections"

      private

      def path = "/hello"
    end
  end
end
