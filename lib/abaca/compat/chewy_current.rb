# frozen_string_literal: true

module Abaca
  module Compat
    # Chewy from 7.2.3 keeps its stack of strategies, the scopes of searches and its client in a variable of the thread:
    # on fibers a request indexes by another one's strategy, or, within another one's `bypass`, not at all, and searches
    # within its scopes. 7.2.2 kept them in Thread.current[], which is the fiber's, and so does this. The client, whose
    # connections are worth keeping, stays the thread's.
    module ChewyCurrent
      CLIENT = :abaca_chewy_client
      private_constant :CLIENT

      # In place of two methods of the gem.
      module ByFiber
        def current = Thread.current[:chewy] ||= {}

        # What stands in `current` goes first: apps set it there.
        def client
          current[:chewy_client] ||=
            Thread.current.thread_variable_get(CLIENT) ||
            super.tap { |client| Thread.current.thread_variable_set(CLIENT, client) }
        end
      end
      private_constant :ByFiber

      # @param config [Config]
      # @param _log [Log]
      # @return [nil]
      def self.adapt(config, _log)
        ::Chewy.singleton_class.prepend(ByFiber) if Compat.fibers?(config) && by_thread?
        nil
      end

      # Whether what one fiber keeps is another one's.
      def self.by_thread?
        inside = Fiber.new { ::Chewy.current }.resume
        inside.equal?(Fiber.new { ::Chewy.current }.resume)
      end
      private_class_method :by_thread?
    end
  end
end
