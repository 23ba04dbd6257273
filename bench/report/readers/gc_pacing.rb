# frozen_string_literal: true

module Bench
  module Reporting
    # What parked fibers add to garbage collection, with and without pacing.
    class GcPacingReader < Reader
      def charts
        bars = rows.map do |row|
          name = "#{Numbers.count(row["fibers"])} fibers, #{row["pacing"] ? "paced" : "not paced"}"
          samples = row.fetch("samples")
          Bar.new(name: name, rounds: samples.map { |sample| sample["gc_us"] }, ours: row["pacing"],
                  turns: ["#{row["fibers"]} parked", row["pacing"] ? "with pacing" : "without"],
                  more: { "CPU µs" => median(samples.map { |sample| sample["cpu_us"] }),
                          "RSS MB" => median(samples.map { |sample| sample["rss_mb"] }) })
        end
        most = rows.map { |row| row["fibers"] }.max
        [chart(key: "gc", title: "Garbage collection beside #{Numbers.count(most)} parked fibers",
               unit: "µs of GC per unit", bars: bars.select { |bar| bar.name.start_with?("#{Numbers.count(most)} ") }),
         chart(key: "steps", title: "The same by number of parked fibers", unit: "µs of GC per unit", bars: bars,
               says: says(bars))]
      end

      private

      def says(bars)
        none, *_, unpaced, paced = bars.map { |bar| Numbers.short(bar.value) }
        "Without parked fibers a unit takes #{none} µs of garbage collection; beside the most, #{unpaced} µs without " \
          "pacing, and #{paced} µs with it."
      end
    end
  end
end
