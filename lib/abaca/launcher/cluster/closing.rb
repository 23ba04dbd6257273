# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # When the master closes its listeners: at the end of `shutdown_delay`, before the workers close theirs, since the
      # kernel would take connections that nobody accepts.
      class Closing
        # @param listeners [Listeners]
        # @param delay [Numeric] seconds
        def initialize(listeners, delay)
          @listeners = listeners
          @delay = delay
        end

        # The cluster stops.
        #
        # @param at_once [Boolean] or else with the delay
        def begin(at_once:)
          @at ||= now + @delay
          @at = now if at_once
          step
        end

        # Others continue with them.
        def hand_over
          @listeners.keep
          self.begin(at_once: true)
        end

        # Closes them, if it is time.
        def step
          return unless left&.zero?

          @closed = true
          @listeners.close
        end

        # @return [Float, nil] seconds until they are to be closed; nil while they are not, and when they are
        def left = (@at && !@closed ? [@at - now, 0.0].max : nil)

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
