# frozen_string_literal: true

module Bench
  module Modes
    # Many requests at once, each of which waits for a second.
    class Crowd < Row
      DEADLINE = 60 # seconds
      Turn = Struct.new(:right, :wrong, :dropped, :unanswered, :wall, :p50, :p99, :slowest, :refused, :refused_slowest,
                        :before, :peak, keyword_init: true)

      def title = "#{requests} requests at once, each waits 1 s"

      private

      def requests = @quick ? 2000 : 10_000
      def env = { "WAIT" => "1" }

      def settings
        [["abaca", { settings: { max_fibers: 10_000, max_queue: 10_000 } }, "abaca fiber, max_fibers 10000"],
         ["falcon", {}], ["itsi", { fibers: true }]]
      end

      def compared_figures = %i[wall peak]

      def columns = ["right", "503", "wrong", "lost", "wall ms", "p50 ms", "p99 ms", "RSS before MB", "peak MB"]

      def cells(turns)
        lost = turns.sum { |turn| turn.dropped + turn.unanswered }
        times = %i[wall p50 p99].map { |field| milliseconds(median(turns, field)) }
        sizes = %i[before peak].map { |field| (median(turns, field) / 1e6).round }
        [*%i[right refused wrong].map { |field| turns.sum(&field) }, lost, *times, *sizes]
      end

      def measure(entry)
        before = entry.child.resident
        found = figures("burst", entry.port.to_s, requests.to_s, DEADLINE.to_s, limit: DEADLINE + 10)
        raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?

        Turn.new(**found, before: before, peak: entry.child.peak_resident)
      end
    end

    # More than the server accepts: exactly the excess gets 503, at once.
    class Excess < Crowd
      def title = "1000 requests at once, each waits 1 s, with max_fibers 100 and max_queue 100"

      private

      def requests = 1000

      def settings
        limits = { max_fibers: 100, max_queue: 100 }
        [["abaca", { settings: limits }, "abaca fiber"],
         ["abaca", { settings: limits.merge(mode: :thread, threads: [0, 100]) }, "abaca thread 100"],
         ["puma", { threads: 64 }], ["falcon", {}], ["itsi", { threads: 64 }]]
      end

      def columns = [*super, "last 503 ms"]
      def cells(turns) = [*super, milliseconds(turns.map(&:refused_slowest).max)]
    end
  end
end
