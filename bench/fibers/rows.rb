# frozen_string_literal: true

require_relative "../support/window"

module Bench
  # What CRuby's own vm_fiber_* benchmarks do, for a new Fiber each time and for a job of a FiberPool,
  # and four rows more. Each method takes a number of operations and returns the seconds that they took.
  module FiberRows
    GROUP = 1024 # fibers that are suspended together in `reuse` and `cycle`
    TURN = File.join(__dir__, "turn.rb")
    # The variable by which CRuby decides, when it starts, whether stacks are given back to the kernel.
    SWITCH = "RUBY_SHARED_FIBER_POOL_FREE_STACKS"

    # `operation` says what one is, `times` how many there are.
    Row = Struct.new(:name, :operation, :times, keyword_init: true) do
      # @param share [Integer] divides the operations
      # @return [Integer] how many there are then
      def count(share) = [times / share, 1].max
    end

    # Fibers alive at once: a fiber takes two mappings, and a pool takes at most 40 % of what there are.
    ALIVE = begin
      [100_000, (Integer(File.read("/proc/sys/vm/max_map_count")) / 5) - 100].min
    rescue SystemCallError
      10_000
    end

    ROWS = [
      Row.new(name: "allocate", operation: "a fiber made and suspended, GC off", times: ALIVE),
      Row.new(name: "count", operation: "a fiber made and suspended, all alive, GC on", times: ALIVE),
      Row.new(name: "reuse", operation: "#{GROUP} suspended and dropped, GC.start", times: 100),
      Row.new(name: "cycle", operation: "#{GROUP} suspended and run to their ends", times: 200),
      Row.new(name: "switch", operation: "to a fiber and back", times: 2_000_000),
      Row.new(name: "job", operation: "a block that does nothing", times: 500_000),
      Row.new(name: "post", operation: "the same block that does nothing each time, no ticket", times: 500_000),
      Row.new(name: "native", operation: "a C function that does nothing, as the server starts it", times: 500_000)
    ].freeze

    # @param ruby [Ruby]
    # @param kind [String] fresh or pool
    # @param share [Integer] divides the operations
    # @return [Array<String>] what runs a row in a process of its own
    def self.command(ruby, kind, row, share)
      ruby.command("-I#{ruby.abaca}", TURN, kind, row.name, row.count(share).to_s)
    end

    def self.seconds
      Window.open do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        yield
        Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
      end
    end

    # Starts jobs without a Proc and a ticket: the extension of the pool's own tests.
    def self.hooks
      require_relative "../../test/support/pool_hooks"
      PoolHooksBuild.load
      PoolHooks
    end

    # A new Fiber each time.
    class Fresh
      def allocate(count)
        GC.disable
        count(count)
      end

      def count(count)
        fibers = []
        taken = FiberRows.seconds { count.times { suspend(fibers) } }
        raise "a fiber has ended" unless fibers.size == count && fibers.all?(&:alive?)

        taken
      end

      def reuse(count)
        FiberRows.seconds do
          count.times do
            fibers = []
            GROUP.times { suspend(fibers) }
            fibers.clear
            GC.start
          end
        end
      end

      def cycle(count)
        fibers = []
        FiberRows.seconds do
          count.times do
            fibers.clear
            GROUP.times { suspend(fibers) }
            fibers.each(&:resume)
          end
        end
      end

      def switch(count)
        fiber = Fiber.new { loop { Fiber.yield } }
        FiberRows.seconds { count.times { fiber.resume } }
      end

      def job(count)
        done = 0
        taken = FiberRows.seconds { count.times { Fiber.new { done += 1 }.resume } }
        raise "#{done} of #{count} jobs ran" unless done == count

        taken
      end

      def post(count)
        done = 0
        job = proc { done += 1 }
        taken = FiberRows.seconds { count.times { Fiber.new(&job).resume } }
        raise "#{done} of #{count} jobs ran" unless done == count

        taken
      end

      def native(count)
        hooks = FiberRows.hooks
        Window.open { hooks.measure_fresh(count) * count / 1e9 }
      end

      private

      def suspend(fibers)
        fiber = Fiber.new { Fiber.yield }
        fibers << fiber
        fiber.resume
      end
    end

    # Jobs of a pool. They suspend themselves in a wait for a Queue, since a job may leave its fiber
    # only through the loop.
    class Pooled
      def initialize
        Fiber.set_scheduler(Abaca::Scheduler.new)
        @pool = Abaca::FiberPool.new(max: ALIVE, idle: ALIVE)
        @gate = Queue.new
        @ended = 0
      end

      def allocate(count)
        GC.disable
        count(count)
      end

      def count(count)
        tickets = []
        taken = FiberRows.seconds { count.times { suspend(tickets) } }
        raise "a job has ended" unless tickets.size == count && tickets.all?(&:alive?)

        open_gate
        taken
      end

      def reuse(count)
        FiberRows.seconds do
          count.times do
            tickets = []
            GROUP.times { suspend(tickets) }
            tickets.clear
            open_gate
            GC.start
          end
        end
      end

      def cycle(count)
        tickets = []
        taken = FiberRows.seconds do
          count.times do
            tickets.clear
            GROUP.times { suspend(tickets) }
            open_gate
          end
        end
        raise "#{@ended} of #{count * GROUP} jobs have ended" unless @ended == count * GROUP

        taken
      end

      # Between the loop's fiber and the job's, by transfer, as the loop does it.
      def switch(count)
        root = Fiber.current
        fiber = nil
        over = false
        @pool.run do
          fiber = Fiber.current
          loop { over ? break : root.transfer }
        end
        taken = FiberRows.seconds { count.times { fiber.transfer } }
        over = true
        fiber.transfer
        taken
      end

      def job(count)
        done = 0
        taken = FiberRows.seconds { count.times { @pool.run { done += 1 } } }
        raise "#{done} of #{count} jobs ran" unless done == count

        taken
      end

      def post(count)
        done = 0
        job = proc { done += 1 }
        taken = FiberRows.seconds { count.times { @pool.post(job) } }
        raise "#{done} of #{count} jobs ran" unless done == count

        taken
      end

      def native(count)
        hooks = FiberRows.hooks
        Fiber.set_scheduler(hooks::Scheduler.new)
        Window.open { hooks.measure(hooks::FiberPool.new, count) * count / 1e9 }
      end

      private

      def suspend(tickets)
        tickets << @pool.run do
          @gate.pop
          @ended += 1
        end
      end

      # Resumes every suspended job, to its end.
      def open_gate
        @gate.close
        Fiber.scheduler.run
        @gate = Queue.new
      end
    end
  end
end
