# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Tells others whether the cluster serves: a worker turns, and the master looks after all of them. Any thread may
      # ask.
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
        # @return [Boolean] whether that was so within them. While all workers boot, the master is enough
        def within?(limit)
          booted = @workers.select(&:booted?)
          now - @turned <= limit + @pause && (booted.empty? || booted.any? { |worker| worker.silence <= limit })
        end

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
