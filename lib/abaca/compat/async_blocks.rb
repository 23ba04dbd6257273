# frozen_string_literal: true

module Abaca
  module Compat
    # Async (2.x; tried with 2.24 and 2.46) makes its tasks children of the thread's fiber scheduler, which it takes
    # for its own: Sync { } and Async { } in a request end in NoMethodError (add_child). Here the outermost block runs
    # on a thread, as with Abaca.offload, where Async finds no scheduler and creates its own. The request's fiber
    # waits for it, and ends it if the request is cancelled. As on any thread without a scheduler, Async { } returns
    # when its task and everything that it started are done. Blocks inside it, and those under Async's own scheduler
    # (--fiber-scheduler Async::Scheduler, which needs no thread), stay where they are.
    module AsyncBlocks
      def self.adapt(config, log)
        return if ::Kernel.include?(OnThreads) || !Compat.fibers?(config)

        ::Kernel.prepend(OnThreads)
        return unless SchedulerClass.of(config[:fiber_scheduler]) <= Scheduler

        log.info("* Async: its blocks in requests run on threads; faster: --fiber-scheduler Async::Scheduler")
      end

      # @return [Boolean] whether the current fiber has a scheduler that Async cannot use
      def self.foreign?
        scheduler = Fiber.current_scheduler
        !(scheduler.nil? || scheduler.is_a?(::Async::Scheduler))
      end

      # Replaces the methods of the gem.
      module OnThreads
        def Async(...) = AsyncBlocks.foreign? ? Abaca.offload { super(...) } : super # rubocop:disable Naming/MethodName

        def Sync(...) = AsyncBlocks.foreign? ? Abaca.offload { super(...) } : super # rubocop:disable Naming/MethodName
      end
      private_constant :OnThreads
    end
  end
end
