# frozen_string_literal: true

module Bench
  module Reporting
    # What parked fibers add to garbage collection, with and without pacing.
    class GcPacingReader < Reader
      def charts
        bars = rows.map do |row|
          name = "#{Numbers.short(row["fibers"])} fibers, #{row["pacing"] ? "paced" : "not paced"}"
          samples = row.fetch("samples")
          Bar.new(name: name, rounds: samples.map { |sample| sample["gc_us"] }, ours: row["pacing"],
                  more: { "CPU µs" => median(samples.map { |sample| sample["cpu_us"] }),
                          "RSS MB" => median(samples.map { |sample| sample["rss_mb"] }) })
        end
        most = rows.map { |row| row["fibers"] }.max
        [chart(key: "gc", title: "Garbage collection beside parked fibers", unit: "µs of GC per unit",
               bars: bars.select do |bar|
                 bar.name.start_with?("#{Numbers.short(most)} ") || bar.name.start_with?("0 ")
               end,
               ours: "#{Numbers.short(most)} fibers, paced"), *steps(bars)]
      end

      private

      def steps(bars)
        [chart(key: "steps", title: "The same by number of parked fibers", unit: "µs of GC per unit", bars: bars)]
      end
    end
  end
end
