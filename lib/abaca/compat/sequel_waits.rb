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

      # @param pool [Sequel::ConnectionPool]
      # @return [Array<String>] its name: that of the database, where it has one
      def self.title(pool) = ["Sequel", pool.db.opts[:database]]

      # The pool's own methods wait for its lock.
      #
      # @param pool [Sequel::ConnectionPool]
      # @return [Array<Integer>, nil] connections that are used, and idle
      def self.usage(pool)
        idle = %i[@available_connections @queue].filter_map { |name| pool.instance_variable_get(name) }.first
        used = pool.instance_variable_get(:@allocated)
        [used.size, idle.size] if used && idle
      end

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
        PoolGate.of(pool, :max_size, SequelWaits)
      end
    end
  end
end
