# frozen_string_literal: true

module Abaca
  module Compat
    # rack-timeout (tried with 0.7.0) has a thread that raises in the thread of a request that takes too long. On
    # fibers that thread has many requests, and whichever runs at that time would fail. Here the exception goes to the
    # fiber in the gem's block, where it waits; a fiber that computes gets it at its next wait, if the block still
    # runs then. Everything else is the gem's: what it raises, its states, observers, wait_timeout and
    # term_on_timeout. On threads nothing changes.
    module RackTimeouts
      # Seconds until a fiber that did not wait is tried again.
      RETRY = 0.01
      private_constant :RETRY

      def self.adapt(config, _log)
        ::Rack::Timeout::Scheduler::Timeout.prepend(OnFibers) if Compat.fibers?(config)
        nil
      end

      # Replaces the method of the gem, where it is called on a fiber with a scheduler.
      module OnFibers
        def timeout(seconds, &block)
          scheduler = Fiber.current_scheduler
          return super if scheduler.nil? || seconds.nil? || seconds.zero?

          target = (scheduler.is_a?(Scheduler) ? Target : ForeignTarget).new(@scheduler, scheduler)
          job = @scheduler.run_in(seconds) { @on_timeout.call(target) }
          begin
            block.call
          ensure
            job.cancel!
            target.leave
          end
        end
      end

      # Stands for the request's thread: the gem's own thread raises in it.
      class Target
        # @param timers [Rack::Timeout::Scheduler]
        # @param scheduler [Scheduler] of the calling fiber
        def initialize(timers, scheduler)
          @timers = timers
          @scheduler = scheduler
          @fiber = Fiber.current
          @left = false
        end

        # As Thread#raise.
        def raise(exception, *message) = deliver(exception.exception(*message))

        # The fiber has left the block: an exception that has not reached it is dropped.
        def leave = @left = true

        private

        def deliver(exception)
          return if @left || @scheduler.fiber_interrupt(@fiber, exception)

          @timers.run_in(RETRY) { deliver(exception) }
        end
      end

      # On a scheduler that is not Abaca's, only its own fibers may raise in others, so one of them waits for that.
      class ForeignTarget < Target
        def initialize(timers, scheduler)
          super
          @exceptions = Thread::Queue.new
          Fiber.schedule { await }
        end

        def leave
          super
          @exceptions.close
        end

        private

        def deliver(exception)
          @exceptions << exception
        rescue ClosedQueueError
          nil # the block has ended
        end

        def await
          exception = @exceptions.pop
          interrupt(exception) if exception && !@left
        end

        # Where fibers are switched by transfer, Fiber#raise does not come back: the scheduler's ready queue has to
        # resume this one.
        def interrupt(exception)
          return @scheduler.fiber_interrupt(@fiber, exception) if @scheduler.respond_to?(:fiber_interrupt)

          @scheduler.unblock(self, Fiber.current)
          @fiber.raise(exception)
        end
      end
      private_constant :OnFibers, :Target, :ForeignTarget
    end
  end
end
