# frozen_string_literal: true

module Abaca
  class Metrics
    # The app's pools of connections, by names of OpenTelemetry's, those of all processes added. What a pool has is that
    # of the last second; checkouts are counted when they end.
    class Pools
      # @param text [Text]
      # @param found [Hash{Symbol => Object}] `pools` and `totals` of Page::Tally#take
      def write(text, found)
        pools = found[:pools].map { |pool| [{ db_client_connection_pool_name: pool[:pool] }, pool] }
        now(text, pools)
        text.counter("db_client_connection_timeouts_total", "Checkouts that the pool has given up.",
                     pools.to_h { |name, pool| [name, pool[:timeouts]] })
        text.histogram("db_client_connection_wait_time_seconds", "Times until a checkout had its connection.",
                       pools.map { |name, pool| [name, pool[:time], pool[:counts], nil] })
        text.counter("abaca_pools_dropped_total", "Pools of the app that are not told, since there are too many.",
                     found[:totals][:pools_dropped])
      end

      private

      def now(text, pools)
        text.gauge("db_client_connection_count", "Connections of the app's pools, by state.", states(pools))
        text.gauge("db_client_connection_max", "Connections that the pools may have.",
                   pools.to_h { |name, pool| [name, (pool[:size] if pool[:size].positive?)] })
        text.gauge("db_client_connection_pending_requests", "Checkouts that wait for a connection.",
                   pools.to_h { |name, pool| [name, pool[:waiting]] })
      end

      def states(pools)
        pools.each_with_object({}) do |(name, pool), samples|
          { idle: pool[:idle], used: pool[:busy] }.each do |state, count|
            samples[{ **name, db_client_connection_state: state }] = count
          end
        end
      end
    end
  end
end
