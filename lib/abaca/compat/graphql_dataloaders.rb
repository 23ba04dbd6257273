# frozen_string_literal: true

module Abaca
  module Compat
    # GraphQL::Dataloader (from graphql 1.12 on; tried with 2.6) runs fields and sources in fibers that
    # are blocking unless it is in its nonblocking mode: each wait in a field keeps the thread and all its requests.
    # Here the fibers are non-blocking, as the request's own is: a wait of the inner fiber parks it, together with those
    # that have resumed it, and the loop runs other requests. Only the inner fiber goes on after the wait, so what the
    # gem promises about order and batches holds. The gem's own nonblocking mode would call Fiber.scheduler.run in the
    # request, so nonblocking? stays as it is.
    module GraphqlDataloaders
      # For the class and its subclasses.
      module SpawnFiber
        # Each version of the method asks @nonblocking how to create the fiber, before the fiber runs.
        def spawn_fiber
          return super unless GraphqlDataloaders.transfers?

          before = @nonblocking
          @nonblocking = true
          begin
            super
          ensure
            @nonblocking = before
          end
        end
      end
      private_constant :SpawnFiber

      # Whether the current fiber's scheduler switches fibers by transfer, as Abaca's and Async's do. One that calls
      # Fiber.yield would come back to the Dataloader in the middle of a wait.
      #
      # @return [Boolean]
      def self.transfers?
        scheduler = Fiber.current_scheduler
        scheduler.is_a?(Scheduler) || scheduler.respond_to?(:transfer)
      end

      # Loads the class, which may be loaded by the first query otherwise.
      def self.adapt(config, _log)
        return unless Compat.fibers?(config) && ::GraphQL.const_defined?(:Dataloader)

        ::GraphQL::Dataloader.prepend(SpawnFiber)
        nil
      end
    end
  end
end
