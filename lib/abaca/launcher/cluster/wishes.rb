# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # What an operator wants of one worker.
      module Wishes
        # Ends a worker gracefully, and starts another one in its place. Any thread may call it.
        #
        # @param index [Integer] its number
        # @return [Boolean] whether there is such a worker
        def drain_worker(index) = wish(:drain, index)

        # The same, but its successor boots first.
        #
        # @param index [Integer] its number
        # @return [Boolean] whether there is such a worker
        def recycle_worker(index) = wish(:recycle, index)

        private

        def wish(command, index) = !worker_with(index).nil? && posted?([command, index])

        # At a restart, its successor boots with the same number.
        def worker_with(index) = @workers.active.find { |worker| worker.index == index && worker.booted? }

        # In the master's turn.
        def obey_for(command, index)
          worker = worker_with(index) or return
          return @restarts.want(worker) if command == :recycle

          @log.info("- #{worker} is drained: somebody has asked for it")
          retire(worker, :drain)
        end
      end
    end
  end
end
