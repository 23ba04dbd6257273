# frozen_string_literal: true

module Abaca
  module Compat
    # The gem connection_pool (from 2.2 on; tried with 2.5 and 3.0), which Redis, Dalli and Sidekiq's clients use: as
    # with Active Record. See PoolGate. Calls with a short explicit timeout are left alone: they would rather go
    # without a connection.
    module ConnectionPools
      # For ConnectionPool::TimedStack, whose arguments differ in each version.
      module Pop
        # A timeout shorter than this, in seconds, is honoured.
        SHORT = 1

        def pop(*args, **options)
          time = options[:timeout] || args.first
          waits = time.is_a?(Numeric) && time >= SHORT
          (@abaca_gate || PoolGate.of(self, :max, ConnectionPools)).pass(waits:) { super }
        end
      end
      private_constant :Pop

      # @param stack [ConnectionPool::TimedStack]
      # @return [String] they have no names of their own
      def self.title(_stack) = "ConnectionPool"

      # @param stack [ConnectionPool::TimedStack] that takes no lock for this
      # @return [Array<Integer>] connections that are used, and idle; the latter are told from the gem's 2.5 on
      def self.usage(stack) = [stack.max - stack.length, stack.respond_to?(:idle) ? stack.idle : 0]

      def self.adapt(_config, _log)
        ::ConnectionPool::TimedStack.prepend(Pop)
        nil
      end
    end
  end
end
