# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each route, as the app's framework names it, and for each reason to answer without the app.
      class Routes < Screen
        describe :routes, "Routes", [
          words(:route, "ROUTE", wide: true, rank: 0), figure(:rate, "R/S", :rate), figure(:p50, "P50", :seconds),
          figure(:p99, "P99", :seconds), figure(:failed, "5XX%", :percent), figure(:run, "RUN", :seconds),
          figure(:db, "DB", :seconds), figure(:pool, "POOL", :seconds), figure(:stalls, "STALLS", :count, rank: 2),
          figure(:time, "TIME%", :percent, rank: 0)
        ], sort: :time

        def note = "RUN, DB and POOL: of each request"

        private

        def all
          routes = @look.routes
          time = routes.each_value.sum { |route| route[:sums].values.sum }
          routes.map do |name, route|
            share = time.positive? ? route[:sums].values.sum * 100 / time : 0.0
            cells = { route: name, rate: rate(route[:requests]), **latencies(name), **each(route),
                      stalls: route[:stalls], time: share }
            Row.new(id: name, cells:, mark: cells[:failed].to_f >= 1 ? :alarm : nil)
          end + rejected
        end

        # Their routes are not known: the app's framework would have told them.
        def rejected
          @look.rejections.map do |why, count|
            name = "(rejected: #{why})"
            Row.new(id: name, mark: :alarm,
                    cells: { route: name, rate: rate(count), failed: 100.0, stalls: 0, time: 0.0 })
          end
        end

        def rate(count) = @look.seconds.positive? ? count / @look.seconds : nil

        def latencies(name)
          latency = @look.latency(:request) { |one| one[:route] == name }
          failed = @look.count(:request) { |one| one[:route] == name && one[:status].to_i >= 500 }
          { p50: latency.quantile(0.5), p99: latency.quantile(0.99),
            failed: latency.empty? ? 0.0 : failed * 100.0 / latency.size }
        end

        def each(route)
          %i[run db pool].to_h do |state|
            [state, route[:requests].zero? ? nil : route[:sums].fetch(state, 0) / route[:requests]]
          end
        end
      end
    end
  end
end
