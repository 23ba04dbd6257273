# frozen_string_literal: true

module Bench
  module Reporting
    # A pool of five connections behind hundreds of requests.
    class DatabasesReader < Reader
      PAGES = { "/hold" => "a slow statement", "/page" => "a short transaction" }.freeze

      def charts = @data.fetch("parts").flat_map { |title, part| PAGES.keys.map { |page| of(title, part, page) } }

      private

      def of(title, part, page)
        turns = part.fetch("turns").transform_values { |rounds| rounds.filter_map { |round| read(round[page]) } }
        more = { "requests/s" => ->(turn) { turn["answers"] * 1e6 / turn["whole"] }, "p99 ms" => pick("p99", 0.001),
                 "failed" => pick("failed"), "peak MB" => pick("peak", 1e-6) }
        chart(key: "#{Text.anchor(title)}-#{page.delete("/")}", title: "#{title}: #{PAGES.fetch(page)}",
              unit: "µs of CPU per request", bars: bars(turns, more: more, &pick("cpu")), absent: part["absent"],
              row: title)
      end
    end
  end
end
