# frozen_string_literal: true

require_relative "../support/pick"

module Bench
  # What can run a workload: threads, or fibers on a scheduler. Each entry says which gem it needs and how the
  # measuring process creates its scheduler.
  module Targets
    # `gem` is nil for what needs none; `features` are required, then `constant` is instantiated.
    Target = Struct.new(:name, :gem, :features, :constant, :env, keyword_init: true)

    ALL = [
      Target.new(name: "threads", features: []),
      Target.new(name: "abaca", features: ["abaca/scheduler"], constant: "Abaca::Scheduler"),
      Target.new(name: "async", gem: "async", features: ["async"], constant: "Async::Scheduler",
                 env: { "IO_EVENT_SELECTOR" => "EPoll" }),
      Target.new(name: "itsi", gem: "itsi-scheduler", features: ["itsi/scheduler"], constant: "Itsi::Scheduler"),
      Target.new(name: "carbon_fiber", gem: "carbon_fiber", features: ["carbon_fiber/scheduler"],
                 constant: "CarbonFiber::Scheduler"),
      Target.new(name: "uringmachine", gem: "uringmachine", features: %w[uringmachine uringmachine/fiber_scheduler],
                 constant: "UringMachine::FiberScheduler")
    ].freeze

    module_function

    # See Bench.pick.
    def pick(names) = Bench.pick(ALL, names, "target")
  end

  # Starts tasks as threads. Dead ones are joined in batches, otherwise a hundred thousand would pile up.
  class ThreadRunner
    ALIVE = 10_000

    # Runs the block, then waits until all that it started has ended.
    def run
      @threads = []
      yield self
      @threads.shift.join until @threads.empty?
    end

    def start(&block)
      @threads.shift.join while @threads.size >= ALIVE
      @threads << Thread.new(&block).tap { |thread| thread.report_on_exception = true }
    end
  end

  # Starts tasks as fibers of a scheduler, in a thread of its own whose end runs the loop.
  class FiberRunner
    # @param make [#call] gives a new scheduler
    def initialize(make)
      @make = make
    end

    def run
      Thread.new do
        Fiber.set_scheduler(@make.call)
        yield self
      end.join
    end

    def start(&) = Fiber.schedule(&)
  end
end
