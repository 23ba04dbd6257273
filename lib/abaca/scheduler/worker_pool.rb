# frozen_string_literal: true

module Abaca
  class Scheduler
    # The Ruby threads on which a scheduler with <tt>worker_pool: true</tt> runs the blocking operations of extensions
    # (zlib, big copies and numbers; Ruby 3.4 and later). Their number is bounded, and an idle one ends after a while.
    # They are Ruby threads because Ruby 3.4 passes an operation as a Proc, which releases the GVL by itself.
    class WorkerPool # :nodoc:
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

        def fail(error)
          @error = error
          @done = true
        end

        def result = @error ? raise(@error) : true
      end

      # threads: the most there may be.
      def initialize(scheduler, threads)
        @scheduler = scheduler
        @max_threads = threads
        @threads = 0
        @jobs = Queue.new
        @process = Process.pid
      end

      # False in a forked child, which has none of the threads.
      def here? = @process == Process.pid

      # Runs the operation while the fiber waits, which the block does. Returns true; raises what it raised.
      def run(operation)
        job = Job.new(operation, @scheduler)
        @jobs << job
        begin
          start_thread if @jobs.num_waiting < @jobs.size && @threads < @max_threads
          yield job until job.done?
        ensure
          await_end(job) unless job.done?
        end
        job.result
      end

      private

      # The operation works on the fiber's stack: the fiber does not leave before it is over, not even if another
      # exception is raised in it.
      def await_end(job)
        Thread.handle_interrupt(Object => :never) do
          Fiber.blocking { sleep 0.0005 until job.done? }
        end
      end

      def start_thread
        @threads += 1
        Thread.new { serve }
      rescue ThreadError => e
        @threads -= 1
        give_up(e) if @threads.zero? # one is enough to make progress
      end

      # The job would never run, unless a thread that was about to end has found it.
      def give_up(error)
        @jobs.pop(true).fail(error)
      rescue ThreadError
        nil
      end

      # A thread that ends is no longer counted when it looks for the last time, and a job is in the queue when its
      # fiber counts the threads, so one of them sees the other.
      def serve
        counted = true
        loop do
          while (job = @jobs.pop(timeout: IDLE_SECONDS))
            job.run
          end
          @threads -= 1
          counted = false
          break if @jobs.empty? || @threads >= @max_threads

          @threads += 1
          counted = true
        end
      ensure
        @threads -= 1 if counted # killed
      end
    end
  end
end
