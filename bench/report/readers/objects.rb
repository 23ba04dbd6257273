# frozen_string_literal: true

module Bench
  module Reporting
    # Ruby objects that a request allocates.
    class ObjectsReader < Reader
      TITLES = { "wrk's request" => "A short request",
                 "a browser's (9 fields)" => "A browser's request, nine fields" }.freeze

      def charts
        servers = @data.fetch("objects_per_request")
        servers.values.first.keys.map.with_index do |request, nth|
          bars = servers.map { |name, figures| Bar.new(name: name, rounds: [figures[request]]) }
          chart(key: %w[short browser].fetch(nth, request), title: TITLES.fetch(request, request), bars: bars,
                unit: "objects per request", absent: @data["absent"], exact: true)
        end
      end
    end
  end
end
