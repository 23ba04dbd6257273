# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"
require_relative "offload"
require_relative "scheduler/forked"
require_relative "scheduler/mutex_sleep"

module Abaca
  # A Fiber::Scheduler on a native event loop. It needs no server:
  #
  #     require "abaca/scheduler"
  #
  #     Thread.new do
  #       Fiber.set_scheduler(Abaca::Scheduler.new)
  #       Fiber.schedule { Net::HTTP.get(URI("http://127.0.0.1:9292/")) }
  #       Fiber.schedule { sleep 1 }
  #     end.join # both at the same time
  #
  # Ruby calls the hooks (+io_wait+, +block+, +kernel_sleep+ and so on); these are for everybody:
  #
  # - #run runs fibers until none is left; Ruby does it by itself when the thread ends.
  # - #close runs the remaining fibers and detaches from the thread; #closed? tells.
  # - #fibers lists the fibers that wait or are ready: what each waits for, since when, and where.
  # - .no_preempt keeps a block from being preempted, with a +quantum+.
  #
  # A scheduler belongs to the thread that first uses it, and to the process that made it: a forked
  # child makes its own. There, until it does (Ruby before 4.0 leaves the parent's in place), a wait
  # blocks the thread as it does without a scheduler.
  #
  # An exception that ends a fiber of Fiber.schedule is written to $stderr, as
  # Thread#report_on_exception says, and ends nothing else. SystemExit, SignalException and
  # NoMemoryError are raised out of #run.
  #
  # Abaca.offload runs a block on a thread, while other fibers continue.
  #
  # What a version of Ruby does not pass to the scheduler still blocks the whole thread: IO.select and waits inside an
  # Enumerator's +next+ on Ruby 3.1, opening files and fsync on all. More is in docs/scheduler.md.
  class Scheduler
    autoload :WorkerPool, File.expand_path("scheduler/worker_pool", __dir__)
    private_constant :WorkerPool

    # quantum: seconds after which a fiber that computes makes room for the others, as if it had called
    # <tt>sleep(0)</tt>; nil, the default: never. Fibers then take turns at any point of Ruby code, as threads do:
    # docs/scheduler.md says what that means. Raises ArgumentError and TypeError.
    #
    # worker_pool: true runs the blocking operations of extensions, zlib's above all, on a few threads, so that other
    # fibers run meanwhile; a number is the most there may be (true means 4). Only Ruby 3.4 and later pass such
    # operations to a scheduler. That takes tens of microseconds, more than most operations, so the default, false,
    # runs them at once. offload: is another name for it.
    def initialize(quantum: nil, offload: false, worker_pool: offload)
      self.quantum = quantum
      threads = worker_pool == true ? 4 : worker_pool || 0
      raise TypeError, "worker_pool must be true, false or a number of threads" unless threads.is_a?(Integer)
      raise ArgumentError, "worker_pool must not be negative" if threads.negative?

      return unless threads.positive?

      @worker_pool = WorkerPool.new(self, threads)
      extend(BlockingOperations) unless is_a?(BlockingOperations)
    end

    # Raises TypeError: the fibers and descriptors belong to one scheduler.
    def initialize_copy(_other)
      raise TypeError, "a scheduler cannot be copied"
    end

    # Ruby 3.4 takes an operation for done when this hook returns, and what it waits for inside (IO.copy_stream does)
    # would then hold up the thread. Without the hook it runs as on Ruby 3.3. So only schedulers with worker_pool: have
    # it, and subclasses that override it.
    module BlockingOperations # :nodoc:
      # Runs a blocking operation of an extension, here or on a thread (worker_pool:). Returns true.
      def blocking_operation_wait(operation)
        if @worker_pool&.here?
          @worker_pool.run(operation) { |job| await_operation(job) }
        elsif Fiber.respond_to?(:blocking)
          # Otherwise Ruby 3.4 would come back to this hook.
          Fiber.blocking { operation.call }
          true
        else
          operation.call
          true
        end
      end
    end
    private_constant :BlockingOperations

    def self.method_added(name)
      super
      include BlockingOperations if name == :blocking_operation_wait # for `super`
    end
    private_class_method :method_added
  end
end
