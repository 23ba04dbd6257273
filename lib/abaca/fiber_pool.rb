# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"
require_relative "fiber_pool/leak_report"

module Abaca
  # Fibers that run many jobs, one after another, and are scrubbed in between: no job sees fiber-locals, fiber storage
  # or instance variables of the last. The server runs each request as such a job. A fiber that was killed, or cannot
  # be cleaned, is replaced.
  #
  #     require "abaca/fiber_pool"
  #     require "abaca/scheduler"
  #
  #     Thread.new do
  #       Fiber.set_scheduler(Abaca::Scheduler.new)
  #       pool = Abaca::FiberPool.new(max: 500, warm: 16)
  #       tickets = urls.map { |url| pool.run { Net::HTTP.get(URI(url)) } }
  #       tickets.map(&:value)
  #     end.value
  #
  # A pool belongs to the thread that first uses it, and to the process that created it; so do its tickets. Only
  # Ticket#alive?, #cancelled? and #status may be called from anywhere.
  #
  # What a job of #run raises is raised by Ticket#value, and written to $stderr as Thread#report_on_exception says; what
  # a job of #post raises goes to `on_error`. SystemExit, SignalException and NoMemoryError are also raised by the
  # scheduler's #run, or by #run and #post of the pool when the job raised before it first waited.
  class FiberPool
    # @!method initialize(max: nil, warm: 0, idle: nil, idle_timeout: 60, retire_after: nil,
    #   on_full: :wait, on_error: nil, gc_pacing: nil)
    #   @param max [Integer, nil] the most fibers. Each takes two memory mappings of the process; the default, and the
    #     maximum, is 40 % of vm.max_map_count.
    #   @param warm [Integer] how many to create now; the idle timer does not end them
    #   @param idle [Integer, nil] how many may be idle; further ones end after their job. nil: no limit
    #   @param idle_timeout [Numeric, nil] seconds after which unused fibers end, at most twice that; nil for never.
    #     Those beyond 1,024 idle ones end after 10
    #   @param retire_after [Integer, nil] how many jobs a fiber runs before it ends
    #   @param on_full [:wait, :raise] what #run and #post do when all are busy
    #   @param on_error [#call, nil] is called with each exception of a posted job, on the job's fiber; nil: it is
    #     reported on $stderr
    #   @param gc_pacing [Boolean, nil] whether the heap grows with the number of live fibers; nil for
    #     what FiberPool.gc_pacing says
    #   @raise [ArgumentError, TypeError] for anything out of range or not a number
    #   @raise [FiberError] if there is no memory for the warm fibers

    # Raises TypeError: a copy would have neither the settings nor the fibers.
    def initialize_copy(_other)
      raise TypeError, "a fiber pool cannot be copied"
    end

    # @!method run Runs the block on a fiber of the pool, at once, until it first waits. If all fibers are busy, the
    #   job waits for one, in the order of the calls.
    #   @return [Ticket]
    #   @raise [Full] when all are busy, with on_full: :raise
    #   @raise [RuntimeError] when the thread has no Abaca::Scheduler, and after a fork
    #   @raise [ThreadError] on another thread than before

    # @!method post(job)
    #   Runs the job as #run does, without a ticket to wait for or cancel, and without an object.
    #   What it raises is passed to the pool's `on_error`, or written to $stderr as Thread#report_on_exception says.
    #   What `on_error` raises is written there, too.
    #   @param job [#call] a Proc, or another object with `call`; its value is dropped
    #   @return [nil]
    #   @raise [TypeError] when the job has no `call`
    #   @raise [FiberError] when there is no memory for even one fiber
    #   @raise what #run raises

    # @!method max
    #   @return [Integer] the most fibers; fewer for ten seconds after the kernel has refused a stack

    # @!method trim(keep = 0)
    #   Lets idle fibers end, until `keep` are left.
    #   @return [Integer] how many end

    # @!method stats
    #   @return [Hash] figures: see docs/fiber_pool.md

    @gc_pacing = true
    @leak_report = false

    class << self
      # @return [Boolean] whether pools created from now on let the heap grow with the number of live fibers, so that
      #   collections, which scan all their stacks, run less often
      attr_accessor :gc_pacing

      # @return [Boolean] whether what jobs leave behind is recorded
      attr_reader :leak_report

      # Switches the record of what jobs leave behind on or off. While it is on, each key is reported once on $stderr,
      # with the place that set it if known, and setting a fiber-local costs a backtrace; afterwards nothing of it
      # remains.
      #
      # @param state [Boolean]
      def leak_report=(state)
        state = state ? true : false
        return if state == @leak_report

        state ? LeakReport.watch : LeakReport.unwatch
        @leak_report = state
      end

      # @return [Array<Leak>] what was found since the report was switched on for the first time, one
      #   for each key
      def leaks = LeakReport.found

      # Subclasses share the report's settings.
      def inherited(subclass)
        super
        subclass.instance_variable_set(:@gc_pacing, @gc_pacing)
      end
    end

    # A job was refused: all fibers are busy.
    class Full < Error; end

    # Raised in a job by Ticket#cancel. Like every Abaca::Cancelled it is not a StandardError.
    class Cancelled < Abaca::Cancelled; end

    # A job of a pool. It never hands out the Fiber, which will run other jobs.
    #
    # - +alive?+ is true while the job waits for a fiber or has not ended; +status+ tells more.
    # - +wait(timeout = nil)+ waits for its end: itself, or nil when the time has passed.
    # - +value+ waits too, and returns what the block returned or raises what it raised; nil for a job
    #   that was cancelled or killed.
    # - +raise(exception)+ raises in the job, where it waits. Never in another one.
    # - +cancel+ ends the job; one that has not started never does. +cancelled?+ tells.
    class Ticket; end
  end
end
