# frozen_string_literal: true

module Bench
  module Reporting
    # Somebody looks at a running server: what it costs, and what requests notice.
    class LooksReader < Reader
      def charts
        rows.flat_map do |row|
          case row["row"]
          when "cost" then cost(row)
          when "beside" then beside(row)
          when "answers" then answers(row)
          when "scrape" then scrape(row)
          else []
          end
        end
      end

      private

      def ours = ->(_) { true }

      def cost(row)
        [chart(key: "cost", title: "A look at #{Numbers.count(row["in_flight"])} requests in flight",
               unit: "ms of CPU", bars: bars(row.fetch("turns"), ours: ours, &pick("ms")))]
      end

      # Each turn has one without a look beside it.
      def beside(row)
        places = row.fetch("turns").group_by { |label, _| label.split(", ").last }
        places.map do |place, turns|
          bars = turns.map do |label, pairs|
            alone, beside = pairs.transpose
            Bar.new(name: label.delete_suffix(", #{place}"), ours: true, rounds: beside.map(&pick("p50", 0.001)),
                    more: { "p50 ms alone" => median(alone.map(&pick("p50", 0.001))),
                            "waited µs" => median(beside.map(&pick("waited"))) })
          end
          where = place == "any" ? "any processor" : "the server's processor"
          chart(key: "beside-#{Text.anchor(place)}", title: "Light requests beside ten looks a second, from #{where}",
                unit: "ms at p50", bars: bars)
        end
      end

      def answers(row)
        row.fetch("turns").map do |state, looks|
          chart(key: "answers-#{Text.anchor(state)}", title: "Time to an answer: #{state}", unit: "ms",
                bars: bars(looks, ours: ours, more: { "CPU ms" => pick("cpu") }, &pick("wall")))
        end
      end

      def scrape(row)
        [chart(key: "scrape", title: "A scrape of #{row["workers"]} workers", unit: "ms of CPU",
               bars: bars(row.fetch("turns"), ours: ours, more: { "wall ms" => pick("wall"), "bytes" => pick("bytes") },
                          &pick("ms")))]
      end
    end
  end
end
