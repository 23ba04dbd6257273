# frozen_string_literal: true

module Bench
  class Looks
    # Requests in flight: what one look at them costs. The dashboard's stream has one a second.
    class Cost
      PATHS = %w[/requests /requests?most=500 /waits /loops /metrics].freeze
      FIRST = 3 # events of a stream: the first ones bring the history, and come faster
      GOAL = 5 # ms

      def initialize(in_flight:, rounds:, quick:, **)
        @count = in_flight
        @rounds = rounds
        @looks = quick ? 10 : 50
        @seconds = quick ? 2 : 10
        @found = Hash.new { |hash, look| hash[look] = [] }
      end

      def run
        Watched.open("cost") do |watched|
          watched.crowd(@count) { @rounds.times { round(watched) } }
        end
      end

      # @return [String] a table
      def render
        table = Table.new(["look", "CPU ms", "least", "bytes"])
        @found.each do |look, turns|
          used = turns.map { |turn| turn[:ms] }
          table.add(look, Statistics.median(used).round(2), used.min.round(2), turns.last[:bytes])
        end
        "#{@count} requests in flight, one look (goal: #{GOAL} ms)\n\n#{table}"
      end

      # @return [Hash] for the results file
      def to_h = { row: "cost", in_flight: @count, looks: @looks, turns: @found }

      private

      def round(watched)
        warn "cost: a round"
        PATHS.each { |path| add(path, *paths(watched, path)) }
        add("dashboard's stream, a second", *stream(watched))
        add("the watch alone, a second", per(@seconds, watched.watch_used { sleep @seconds }), nil)
        tops(watched)
      end

      def paths(watched, path)
        bytes = watched.ask(path).body.bytesize
        [per(@looks, watched.watch_used { @looks.times { watched.ask(path) } }), bytes]
      end

      def stream(watched)
        watched.stream do |event|
          FIRST.times { event.call }
          bytes = 0
          [per(@seconds, watched.watch_used { @seconds.times { bytes = event.call.bytesize } }), bytes]
        end
      end

      # A process of its own; what it costs to begin is told apart from its looks.
      def tops(watched)
        one, bytes = top(watched, 1)
        many, = top(watched, 1 + @seconds)
        add("abaca top --json -n 1", one, bytes)
        add("each further look of it", (many - one) / @seconds, nil)
      end

      def top(watched, looks)
        before = children
        text = IO.popen([Child::CLEAN, *watched.top("-n", looks.to_s, "-d", "0.2")], &:read)
        raise Failed, "abaca top: #{text}" unless text.lines.size == looks

        [(children - before) * 1000, text.bytesize]
      end

      # Seconds of the CPU.
      def children = Process.times.then { |times| times.cutime + times.cstime }

      def per(count, reading) = reading.nanoseconds / 1e6 / count
      def add(look, used, bytes) = @found[look] << { ms: used.round(3), bytes: bytes }
    end
  end
end
