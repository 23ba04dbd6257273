# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Tells others whether the cluster serves: all workers turn, and the master looks after them. Any thread may ask.
      class Watch
        # @param workers [Workers]
        # @param pause [Float] seconds between two turns of the master, at most
        def initialize(workers, pause)
          @workers = workers
          @pause = pause
          turn
        end

        # The master turns.
        def turn = @turned = now

        # @param limit [Float] seconds
        # @return [Boolean] whether that was so within them. Workers that boot or stop have limits of their own
        def within?(limit)
          serving = @workers.active.select(&:serves?)
          now - @turned <= limit + @pause && serving.all? { |worker| worker.silence <= limit }
        end

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
