# frozen_string_literal: true

module Bench
  module Reporting
    # Honest clients beside each attack on HTTP/2.
    class AttacksReader < Reader
      def charts
        attacks = @data.fetch("attacks")
        bars = attacks.map { |name, figures| bar(name.tr("_", " "), figures) }
        alone = attacks.values.map { |figures| figures["alone"].first }
        [chart(key: "beside", title: "Honest clients beside an attack", unit: "ms at p50", bars: bars,
               lines: [Bar.new(name: "without an attack", rounds: alone)], says: says(attacks, bars, median(alone)))]
      end

      private

      def says(attacks, bars, alone)
        worst = bars.max_by(&:value)
        failed, asked = %w[failed requests].map { |field| attacks.values.sum { |figures| figures[field] } }
        "Without an attack, half of the answers come within #{Numbers.short(alone)} ms; beside the worst one, " \
          "#{worst.name}, within #{Numbers.short(worst.value)} ms. #{Numbers.count(failed)} of " \
          "#{Numbers.count(asked)} requests failed."
      end

      def bar(name, figures)
        Bar.new(name: name, rounds: [figures["beside"].first], ours: true,
                more: { "p50 ms alone" => figures["alone"].first, "p99 ms" => figures["beside"].last,
                        "failed" => figures["failed"], "KB of memory" => figures["bytes"] / 1000.0 })
      end
    end
  end
end
