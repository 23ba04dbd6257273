# frozen_string_literal: true

module Abaca
  class Scheduler
    # The Ruby threads on which a scheduler with <tt>offload: true</tt> runs the blocking operations of
    # extensions (zlib, big copies and numbers; Ruby 3.4 and later). There is a bound on them, and one that
    # has had nothing to do for a while ends. They are Ruby threads because Ruby 3.4 hands an operation over
    # as a Proc; it lets go of the GVL by itself.
    class Offload # :nodoc:
      IDLE_SECONDS = 5

      # One operation that a fiber waits for.
      class Job
        def initialize(operation, scheduler)
          @operation = operation
          @scheduler = scheduler
          @fiber = Fiber.current
          @done = false
        end

        def done? = @done

        def run
          @operation.call
        rescue Exception => e # rubocop:disable Lint/RescueException -- it belongs to the fiber
          @error = e
        ensure
          @done = true
          @scheduler.unblock(self, @fiber)
        end

        def result = @error ? raise(@error) : true
      end

      # threads: the most there may be.
      def initialize(scheduler, threads)
        @scheduler = scheduler
        @max_threads = threads
        @threads = 0
        @jobs = Queue.new
      end

      # Runs the operation while the fiber waits, which the block does. Returns true; raises what it raised.
      def run(operation)
        job = Job.new(operation, @scheduler)
        start_thread if @jobs.num_waiting <= @jobs.size && @threads < @max_threads
        @jobs << job
        begin
          yield job until job.done?
        ensure
          # The operation works on the fiber's stack: nobody leaves before it is over, not even when raised in.
          Fiber.blocking { sleep 0.0005 until job.done? } unless job.done?
        end
        job.result
      end

      private

      def start_thread
        @threads += 1
        Thread.new do
          while (job = @jobs.pop(timeout: IDLE_SECONDS))
            job.run
          end
        ensure
          @threads -= 1
        end
      end
    end
    private_constant :Offload
  end
end
