# frozen_string_literal: true

module Abaca
  module Compat
    # From 7.2.3 on, Chewy keeps its stack of strategies, the scopes of searches and its client in a thread variable:
    # on fibers a request indexes by another request's strategy, or, within another's `bypass`, not at all, and
    # searches within its scopes. 7.2.2 kept them in Thread.current[], which belongs to the fiber, and so does this.
    # The client, whose connections are worth keeping, stays with the thread.
    module ChewyCurrent
      CLIENT = :abaca_chewy_client
      private_constant :CLIENT

      # Replaces two methods of the gem.
      module ByFiber
        def current = Thread.current[:chewy] ||= {}

        # A value in `current` comes first: apps set it there.
        def client
          current[:chewy_client] ||=
            Thread.current.thread_variable_get(CLIENT) ||
            super.tap { |client| Thread.current.thread_variable_set(CLIENT, client) }
        end
      end
      private_constant :ByFiber

      def self.adapt(config, _log)
        ::Chewy.singleton_class.prepend(ByFiber) if Compat.fibers?(config) && Compat.shared? { ::Chewy.current }
        nil
      end
    end
  end
end
