# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # How long the master waits before it forks another worker, when workers do not boot.
      class BackOff
        # Seconds after the second failure in a row; each further one doubles them.
        FIRST = 1.0
        # Seconds, at most.
        MOST = 30.0

        def initialize
          succeed
        end

        # A worker has booted.
        def succeed
          @failures = 0
          @until = nil
        end

        # A worker has not. Those that fail while others wait already belong to the same try.
        #
        # @return [Float] seconds to wait: none after the first time
        def fail
          return 0.0 if left.positive?

          @failures += 1
          pause = @failures == 1 ? 0.0 : [FIRST * (2**(@failures - 2)), MOST].min
          @until = now + pause
          pause
        end

        # @return [Float] seconds that are left
        def left = @until ? [@until - now, 0.0].max : 0.0

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
