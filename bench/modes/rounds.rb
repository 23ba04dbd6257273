# frozen_string_literal: true

module Bench
  module Modes
    # Hello world on connections that ask as fast as they are answered: which requests wait while others are served?
    class Rounds < Row
      THREADS = [1, 5, 16].freeze
      Turn = Struct.new(:requests, :microseconds, :p50, :p99, :p999, :worst, :rounds_p99, :rounds_max,
                        keyword_init: true)

      # @param connections [Integer]
      def initialize(connections:, **options)
        @connections = connections
        super(**options)
      end

      def name = "c#{@connections}"
      def title = "Hello world on #{@connections} connections that stay busy"

      private

      def settings
        [["abaca", {}, "abaca fiber"],
         *THREADS.map { |number| abaca("thread", number, mode: :thread) },
         *THREADS.map { |number| abaca("hybrid", number, mode: :hybrid) },
         ["puma", { threads: 5 }], ["puma", { threads: 16 }]]
      end

      def abaca(words, threads, **settings)
        ["abaca", { settings: { **settings, threads: [threads, threads] } }, "abaca #{words} #{threads}"]
      end

      def compared_figures = %i[p50 p99]

      def columns
        ["requests/s", "p50 ms", "p99 ms", "p99.9 ms", "worst ms", "p99 to fiber's", "rounds p99", "rounds max"]
      end

      def cells(turns)
        times = %i[p50 p99 p999 worst].map { |field| (median(turns, field) / 1000.0).round(2) }
        rounds = [median(turns, :rounds_p99), turns.map(&:rounds_max).max].map { |hundredths| hundredths / 100.0 }
        [Statistics.median(turns.map { |turn| turn.requests * 1e6 / turn.microseconds }).round, *times,
         to_fiber(turns), *rounds]
      end

      def to_fiber(turns) = Ratio.new(turns.map(&:p99), @field.turns.fetch("abaca fiber", []).map(&:p99)).cell

      def measure(entry)
        found = figures("rounds", entry.port.to_s, @connections.to_s, seconds.to_s, "/hello")
        raise Failed, "#{found[:failed]} answers were not 200" if found[:failed].positive?

        Turn.new(**found.slice(*Turn.members))
      end

      def seconds = @quick ? 1 : 3
    end
  end
end
