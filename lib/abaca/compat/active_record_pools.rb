# frozen_string_literal: true

module Abaca
  module Compat
    # Active Record (from 7.0 on; tried with 7.2 and 8.1): requests without a connection wait in line, and only as
    # many as there are connections wait in the pool itself, which gives up after checkout_timeout. See PoolGate.
    module ActiveRecordPools
      # For ActiveRecord::ConnectionAdapters::ConnectionPool. With an explicit timeout it does not wait in line.
      module Checkout
        def checkout(*timeout)
          (@abaca_gate || PoolGate.of(self, :size, ActiveRecordPools)).pass(waits: timeout.empty?) { super }
        end
      end
      private_constant :Checkout

      # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
      # @return [Array<String>] its name: that of the database's configuration
      def self.title(pool) = ["ActiveRecord", pool.db_config.name]

      # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
      # @return [Array<Integer>, nil] connections that are used, and idle; nil if somebody has the pool's lock, perhaps
      #   for long
      def self.usage(pool)
        return unless pool.mon_try_enter

        begin
          pool.stat.then { |stat| [stat[:busy] + stat[:dead], stat[:idle]] }
        ensure
          pool.mon_exit
        end
      end

      def self.adapt(_config, _log)
        return unless Compat.loaded?("ActiveSupport") && ::ActiveSupport.respond_to?(:on_load)

        # In development the first request that needs it may load it.
        ::ActiveSupport.on_load(:active_record) do
          ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Checkout)
        end
        nil
      end
    end
  end
end
