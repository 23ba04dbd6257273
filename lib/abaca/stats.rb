# frozen_string_literal: true

module Abaca
  # What Server#stats returns, computed on demand; docs/stats.md says what each figure means.
  module Stats
    class << self
      # @param engine [Engine]
      # @param pool [FiberPool, nil] of a server on Abaca's own scheduler, once it runs
      # @param log [Log]
      # @return [Hash{Symbol => Object}]
      def of(engine, pool, log)
        engine.stats.merge(fiber_pool: pool&.stats, gc: collector(pool), log: { dropped: log.dropped })
      end

      private

      def collector(pool)
        { count: GC.count, seconds: GC.stat(:time) / 1000.0,
          paced_slots: pool ? pool.stats.fetch(:paced_slots) : 0 }
      end
    end
  end
end
