# frozen_string_literal: true

module Bench
  module Cluster
    # Two workers and connections that stay, all of them busy from one moment on: how much worse is it for them if all
    # have come to one worker, than if each worker has half of them?
    class Crowd < Row
      CONNECTIONS = 50
      COUNTS = { "1 ms" => 120_000, "0.2 ms" => 24_000 }.freeze # of computing, about
      PLACES = { "even" => 2, "all on one" => 1 }.freeze # workers that are given connections
      Turn = Struct.new(:p50, :p99, :waited, :per_second, :busiest, :least, :moves, keyword_init: true)

      def title = "#{CONNECTIONS} busy connections on two workers, and all on one of them"

      private

      def settings
        [["abaca", "fiber", { settings: { workers: 2 } }],
         ["abaca", "thread", { settings: { workers: 2, mode: :thread } }],
         ["puma", nil, { workers: 2 }]].flat_map do |server, mode, options|
          COUNTS.to_a.product(PLACES.to_a).map do |(work, count), (place, workers)|
            [server, { count: count, places: workers, **options }, [server, mode, work, place].compact.join(", ")]
          end
        end
      end

      def columns = ["p50 ms", "p99 ms", "to even", "rounds p99", "to even", "requests/s", "busiest", "moves/s"]

      def cells(turns)
        busiest = Statistics.median(turns.map { |turn| turn.busiest.fdiv(turn.least) })
        [milliseconds(median(turns, :p50)), milliseconds(median(turns, :p99)), to_even(turns, :p99),
         (median(turns, :waited) / 100.0).round(2), to_even(turns, :waited),
         median(turns, :per_second).round, busiest.round(2), median(turns, :moves)&.round]
      end

      def to_even(turns, field)
        even = @field.turns.fetch(@field.turns.key(turns).sub(/[^,]+\z/, " even"), [])
        Ratio.new(*[turns, even].map { |list| list.map(&field) }).cell
      end

      def measure(entry)
        workers = workers_of(entry)
        meters = moves = nil
        found = load(entry) do |talk|
          place(talk, workers, entry.options[:places])
          meters = workers.map { |pid| CpuMeter.new(pid).start }
          moves = moves_of(entry)
          talk.puts
        end
        figures_of(entry, found, meters, moves)
      end

      # One answers before the other is there.
      def workers_of(entry)
        family = -> { CpuMeter.family(entry.child.pid).drop(1) }
        Clock.wait_until(seconds: 5, every: 0.02) { family.call.size == 2 }
        family.call.tap { |pids| raise Failed, "#{pids.size} workers, not 2" unless pids.size == 2 }
      end

      def load(entry, &)
        seconds = @quick ? 2 : 5
        figures("rounds", entry.port.to_s, CONNECTIONS.to_s, seconds.to_s, "/burn/#{entry.options[:count]}",
                entry.options[:places].to_s, &)
      end

      # A worker that is stopped accepts nothing.
      def place(talk, workers, places)
        workers.first(places).each do |pid|
          others = workers - [pid]
          others.each { |other| Process.kill(:STOP, other) }
          talk.puts
          raise Failed, "connections are not answered" unless talk.gets.to_s.start_with?("answered")
        ensure
          others.each { |other| Process.kill(:CONT, other) }
        end
      end

      def figures_of(entry, found, meters, moves)
        raise Failed, "#{found[:failed]} answers were not 200" if found[:failed].positive?

        used = meters.map { |meter| meter.stop.nanoseconds }.sort
        seconds = found[:whole] / 1e6
        Turn.new(p50: found[:p50], p99: found[:p99], waited: found[:rounds_p99], per_second: found[:requests] / seconds,
                 busiest: used.last, least: used.first, moves: moves && ((moves_of(entry) - moves) / seconds))
      end

      # Connections that workers have given away so far; nil where nothing tells.
      def moves_of(entry)
        return unless entry.server.is_a?(Catalog::Abaca)

        require "abaca"
        ::Abaca::Page.of(entry.child.pid).sums[:moved_out]
      end
    end
  end
end
