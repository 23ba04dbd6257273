# frozen_string_literal: true

module Bench
  module Reporting
    # Bodies in small pieces.
    class StreamingReader < Reader
      def charts
        [chart(key: "rate", title: "#{Numbers.count(@data["pieces"])} pieces of a kilobyte", better: :more,
               unit: "MB per CPU second", bars: bars(@data.fetch("turns"), &pick("rate")), absent: @data["absent"])]
      end
    end
  end
end
