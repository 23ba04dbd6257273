# frozen_string_literal: true

module Abaca
  module Compat
    # Sequel's pools (tried with 5.110): as with Active Record. See PoolGate. A pool with shards counts per shard, and
    # is left alone.
    module SequelWaits
      POOLS = %i[threaded timed_queue].freeze
      private_constant :POOLS

      # For the classes of pools.
      module Acquire
        private

        def acquire(*)
          @abaca_gate ? @abaca_gate.pass { super } : Abaca.waiting(:pool) { super }
        end
      end

      # For Sequel::ConnectionPool, which creates pools of classes that it loads then. They may be frozen later.
      module GetPool
        def get_pool(...)
          super.tap { |pool| SequelWaits.adapt_pool(pool) }
        end
      end
      private_constant :Acquire, :GetPool

      def self.adapt(_config, _log)
        return if ::Sequel::ConnectionPool.singleton_class <= GetPool

        ::Sequel::ConnectionPool.singleton_class.prepend(GetPool)
        ::Sequel::DATABASES.each { |database| adapt_pool(database.pool) }
        nil
      end

      # @param pool [Sequel::ConnectionPool]
      # @return [void]
      def self.adapt_pool(pool)
        return if pool.frozen? || !POOLS.include?(pool.pool_type) || !pool.respond_to?(:acquire, true)

        pool.class.prepend(Acquire)
        PoolGate.of(pool, :max_size)
      end
    end
  end
end
