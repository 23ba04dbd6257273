# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # How long the master waits before it forks another worker, when workers do not boot, or fail once they serve.
      class BackOff
        # Seconds after the second failure in a row; each further one doubles them.
        FIRST = 1.0
        # Seconds, at most.
        MOST = 30.0
        # Seconds after a pause in which nothing failed: the next failure is the first one again.
        QUIET = 60

        # @param clock [#call] returns seconds
        def initialize(clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
          @clock = clock
          @failures = 0
        end

        # A worker has failed. Those that do so while others wait already belong to the same try.
        #
        # @return [Float] seconds to wait: none after the first time
        def fail
          return 0.0 if left.positive?

          @failures = 0 if @until && now > @until + QUIET
          @failures += 1
          pause = @failures == 1 ? 0.0 : [FIRST * (2**(@failures - 2)), MOST].min
          @until = now + pause
          pause
        end

        # @return [Float] seconds that are left
        def left = @until ? [@until - now, 0.0].max : 0.0

        private

        def now = @clock.call
      end
    end
  end
end
