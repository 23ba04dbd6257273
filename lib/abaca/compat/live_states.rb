# frozen_string_literal: true

module Abaca
  module Compat
    # ActionController::Live runs an action on a thread, which gets a copy of what ActiveSupport keeps for the request:
    # CurrentAttributes, the roles of Active Record, the time zone. Rails (7.0 to 8.1; tried with 7.2 and 8.1) looks
    # for it in the request's thread, but with the isolation level :fiber it belongs to the fiber: the stream would know
    # nothing of what was set before the action. Here it is copied from the fiber, as Rails 8.2 does.
    module LiveStates
      CONTEXT = :abaca_live_context # belongs to the fiber, here that of the stream's thread
      private_constant :CONTEXT

      # For ActionController::Live; called on the request's fiber.
      module Controller
        private

        def new_controller_thread(&action)
          context = ::ActiveSupport::IsolatedExecutionState.context
          super { LiveStates.on_behalf_of(context, &action) }
        end
      end

      # For ActiveSupport::IsolatedExecutionState; called on the stream's thread.
      module State
        def share_with(other, ...) = super(LiveStates.context || other, ...)
      end
      private_constant :Controller, :State

      class << self
        # @return [nil]
        def adapt(config, _log)
          return unless Compat.fibers?(config) && ::ActiveSupport.respond_to?(:on_load)

          # In development the first request may load it.
          ::ActiveSupport.on_load(:action_controller) { LiveStates.install }
          nil
        end

        # Replaces the methods of the gems; does nothing the second time.
        def install
          return unless defined?(::ActiveSupport::IsolatedExecutionState) # from 7.0 on

          ::ActionController::Live.prepend(Controller)
          ::ActiveSupport::IsolatedExecutionState.singleton_class.prepend(State)
        end

        # Runs the block, in which a state is shared with this context's.
        def on_behalf_of(context)
          Thread.current[CONTEXT] = context
          yield
        ensure
          Thread.current[CONTEXT] = nil
        end

        # @return [Fiber, Thread, nil] whose state the stream shares; nil outside of streams
        def context = Thread.current[CONTEXT]
      end
    end
  end
end
