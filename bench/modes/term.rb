# frozen_string_literal: true

module Bench
  module Modes
    # TERM while 200 connections are busy: a request that was sent on an open connection and got no answer is lost.
    class Term < Row
      CONNECTIONS = 200
      Turn = Struct.new(:tries, :answered, :lost, :unanswered, :ending, keyword_init: true)

      def title = "TERM under a load of #{CONNECTIONS} connections, each request waits 10 ms"

      private

      def tries = @quick ? 2 : 10
      def env = { "WAIT" => "0.01" }

      def settings
        [["abaca", {}, "abaca fiber"], ["abaca", { settings: { mode: :hybrid } }, "abaca hybrid"],
         ["abaca", { settings: { mode: :thread, threads: [0, 16] } }, "abaca thread 16"],
         ["puma", { threads: 16 }], ["falcon", {}], ["iodine", { threads: 16 }], ["itsi", { threads: 16 }]]
      end

      def compared_figures = %i[ending]

      def columns = ["tries", "answered", "lost", "of 10,000", "ended after ms"]

      def cells(turns)
        answered = turns.sum(&:answered)
        lost = turns.sum { |turn| turn.lost + turn.unanswered }
        [turns.sum(&:tries), answered, lost, (lost * 10_000.0 / (answered + lost)).round(1),
         (median(turns, :ending) * 1000).round]
      end

      # Each try has a server of its own.
      def turn(entry)
        found = Array.new(tries) { alone(entry) { one_try(entry) } }
        sums = %i[answered lost unanswered].to_h { |field| [field, found.sum { |figures| figures.fetch(field) }] }
        Turn.new(tries: found.size, **sums, ending: Statistics.median(found.map { |figures| figures.fetch(:ending) }))
      end

      def one_try(entry)
        load = Thread.new do
          figures("steady", "port=#{entry.port}", "connections=#{CONNECTIONS}", "seconds=5", "think=2", "path=/1",
                  "reconnect=0")
        end
        load.report_on_exception = false
        sleep 0.7
        told = Clock.now
        Process.kill("TERM", entry.child.pid)
        ended = entry.child.wait(seconds: 10) ? Clock.now - told : 10.0
        entry.child.stop
        load.value.merge(ending: ended)
      end
    end
  end
end
