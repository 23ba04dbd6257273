# frozen_string_literal: true

module Bench
  module Reporting
    # New code while clients ask.
    class RestartsReader < Reader
      def charts
        turns = @data.fetch("turns")
        common = { absent: @data["absent"], row: "restarts" }
        tail = { "p50 ms" => pick("p50", 0.001), "worst ms" => pick("worst", 0.001) }
        [chart(key: "failed", title: "Restarts under load: requests that failed", unit: "requests in all rounds",
               exact: true, bars: turns.map { |name, rounds| failures(name, rounds) }, **common),
         chart(key: "tail", title: "Restarts under load: tail", unit: "ms at p99",
               bars: bars(turns, more: tail, &pick("p99", 0.001)), **common),
         chart(key: "new", title: "Restarts under load: until the new code serves", unit: "ms", bars: changes(turns),
               **common)]
      end

      private

      # One of any round matters.
      def failures(name, rounds)
        Bar.new(name: name, rounds: [rounds.sum { |turn| turn["failed"] }],
                more: { "answered" => rounds.sum { |turn| turn["answered"] } })
      end

      # Each restart counts.
      def changes(turns)
        turns.map do |name, rounds|
          seconds = rounds.flat_map { |turn| turn["changes"] }
          Bar.new(name: name, rounds: seconds.map { |one| one&.*(1000) },
                  more: { "restarts" => seconds.size, "never served" => seconds.count(nil) })
        end
      end
    end
  end
end
