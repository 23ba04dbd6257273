# frozen_string_literal: true

module Bench
  class Looks
    # How long it takes until somebody who looks has an answer, while the server is idle, or cannot.
    class Answers
      LOOKS = %w[/requests /loops /metrics /dashboard].freeze
      # What is asked of the server first, and whether its master is stopped.
      State = Struct.new(:name, :path, :workers, keyword_init: true)
      STATES = [
        State.new(name: "idle", workers: 0), State.new(name: "a loop computes", path: "/burn/%d", workers: 0),
        State.new(name: "an extension keeps Ruby", path: "/hold/%d", workers: 0),
        State.new(name: "the master is stopped", workers: 2)
      ].freeze
      LONG = 600 # seconds
      GOAL = 150 # ms

      def initialize(rounds:, quick:, **)
        @times = quick ? 3 : rounds * 10
        @found = {}
      end

      def run
        STATES.each do |state|
          warn "answers: #{state.name}"
          Watched.open("answers", workers: state.workers) do |watched|
            watched.cookie
            within(watched, state) { measure(watched, state) }
          end
        end
      end

      # @return [String] a table
      def render
        table = Table.new(["state", "look", "median ms", "worst ms", "CPU ms"])
        @found.each do |state, looks|
          looks.each do |look, turns|
            wall = turns.map { |turn| turn[:wall] }
            table.add(state, look, Statistics.median(wall).round(1), wall.max.round(1),
                      Statistics.median(turns.map { |turn| turn[:cpu] }).round(1))
          end
        end
        "time to an answer (goal: #{GOAL} ms)\n\n#{table}"
      end

      # @return [Hash] for the results file
      def to_h = { row: "answers", turns: @found }

      private

      def within(watched, state, &)
        return stopped(watched, &) if state.workers.positive?
        return yield unless state.path

        path = format(state.path, LONG)
        socket = TCPSocket.new("127.0.0.1", watched.port)
        socket.write("GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seen = -> { watched.ask("/stalls").body.include?(path) || watched.ask("/requests").body.include?(path) }
        Clock.wait_until(seconds: 10, every: 0.1, &seen) or raise Failed, "#{path} is not seen"
        sleep 1 # `stall_after` is over
        yield
        raise Failed, "#{path} was answered" if socket.wait_readable(0)
      ensure
        socket&.close
      end

      def stopped(watched)
        Process.kill(:STOP, watched.pid)
        yield
      ensure
        Process.kill(:CONT, watched.pid)
      end

      def measure(watched, state)
        looks = LOOKS.to_h { |path| [path, -> { watched.ask(path, "Cookie" => watched.cookie) }] }
        looks["the stream's first event"] = -> { watched.stream(&:call) }
        @found[state.name] = looks.to_h { |name, look| [name, taken { watched_turn(watched, &look) }] }
        @found[state.name]["abaca top --json -n 1"] = taken { top(watched) }
      end

      def taken(&)
        yield # once before, for what is read the first time only
        Array.new(@times, &)
      end

      def watched_turn(watched, &look)
        wall = nil
        used = watched.watch_used { wall = clocked(&look) }
        { wall: wall, cpu: (used.nanoseconds / 1e6).round(3) }
      end

      # It is a process of its own.
      def top(watched)
        before = Process.times
        wall = clocked do
          IO.popen([Child::CLEAN, *watched.top("-n", "1")], &:read).start_with?("{") or raise Failed, "abaca top"
        end
        after = Process.times
        { wall: wall, cpu: ((after.cutime + after.cstime - before.cutime - before.cstime) * 1000).round(3) }
      end

      def clocked
        begun = Clock.now
        yield
        ((Clock.now - begun) * 1000).round(3)
      end
    end
  end
end
