# frozen_string_literal: true

module Abaca
  module Compat
    # The gem connection_pool (from 2.2 on; tried with 2.5 and 3.0), which Redis, Dalli and Sidekiq's clients are in:
    # as with Active Record. See PoolGate. Not what asks for a connection with a short time of its own: that would
    # rather go without.
    module ConnectionPools
      # For ConnectionPool::TimedStack, whose arguments are others in each version.
      module Pop
        # A time that is shorter than this, in seconds, is taken at its word.
        SHORT = 1

        def pop(*args, **options)
          time = options[:timeout] || args.first
          waits = time.is_a?(Numeric) && time >= SHORT
          (@abaca_gate || PoolGate.of(self, :max)).pass(waits:) { super }
        end
      end
      private_constant :Pop

      # @param _config [Config]
      # @param _log [Log]
      # @return [nil]
      def self.adapt(_config, _log)
        ::ConnectionPool::TimedStack.prepend(Pop)
        nil
      end
    end
  end
end
