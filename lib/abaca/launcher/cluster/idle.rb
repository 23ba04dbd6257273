# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Whether all workers are without a client for `idle_timeout`: none has a request, accepts a connection, gets a
      # request or boots. A worker alone does not stop for that.
      class Idle
        # @param seconds [Float] 0: never
        def initialize(seconds)
          @seconds = seconds
          @since = now
        end

        # @param sums [Hash{Symbol => Object}] figures of all workers
        # @param booting [Boolean] whether a worker boots
        # @return [Boolean]
        def over?(sums, booting:)
          counted = sums.values_at(:accepted, :requests)
          busy = booting || sums.values_at(:in_app, :waiting, :gathering).sum.positive?
          @since = now if busy || counted != @counted
          @counted = counted
          now - @since >= @seconds
        end

        # @return [Boolean] whether there is such a time
        def wanted? = @seconds.positive?

        # @return [Float] seconds until it may be over
        def left = [@since + @seconds - now, 0].max

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
