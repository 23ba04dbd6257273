# frozen_string_literal: true

require_relative "guest/waits"

module Abaca
  # A server on a fiber scheduler that is not Abaca's: the scheduler owns the thread, and the engine
  # waits in it as one more fiber (docs/guest_mode.md).
  class Guest
    # Seconds in which fibers that the app started beside its requests may end by themselves.
    GRACE = 5
    # Seconds between two checks whether they should have less.
    STEP = 0.05
    # The scheduler is then told to end, again and again, since a fiber may catch what was meant for it: the seconds
    # between two attempts.
    PAUSE = 1
    # Exceptions that end the process, wherever they are raised.
    PROCESS = [SystemExit, SignalException, NoMemoryError].freeze
    # The number of foreign exceptions that a server drops in its life.
    MOST_STRAYS = 1000
    private_constant :GRACE, :STEP, :PAUSE, :PROCESS, :MOST_STRAYS

    # @param engine [Engine]
    # @param scheduler_class [Class]
    # @param max_fibers [Integer] requests in the app at once
    # @param log [Log]
    # @param grace [Numeric] seconds that fibers have after the last request
    # @param watched [Boolean] whether a page shows what requests wait for
    def initialize(engine, scheduler_class, max_fibers:, log:, grace: GRACE, watched: false)
      @engine = engine
      @log = log
      @scheduler_class = scheduler_class
      @max_fibers = max_fibers
      @grace = grace
      @watched = watched
      @hurried = @ended = false
      @limits = Thread::Queue.new
      @strays = 0
      @thread = Thread.current
      @process = Process.pid
    end

    # Serves on the calling thread until the engine is stopped and no fiber is left.
    #
    # @return [nil]
    # @raise [ConfigError] when Ruby does not take the scheduler
    def run
      scheduler = attach
      interruptible do
        begin_reaper
        Fiber.schedule { serve(scheduler) }
        go(scheduler)
      ensure
        detach
      end
      raise @failure if @failure
    end

    # Gives the remaining fibers no more time, whether their time has begun or not. A trap handler may call it.
    #
    # @return [nil]
    def hurry
      @hurried = true
      nil
    end

    private

    def attach
      scheduler = @scheduler_class.new
      Waits.watch(scheduler) if @watched
      Fiber.set_scheduler(scheduler)
      scheduler
    rescue StandardError, NotImplementedError => e
      raise ConfigError, "fiber_scheduler: #{@scheduler_class} cannot be used: #{e.message} (#{e.class})"
    end

    # Closing would run it too, but some schedulers do not run when they are closed while an exception is handled. An
    # exception in the thread meanwhile (from `exit` on another one, for example) ends the server first: a closed
    # scheduler may continue until no fiber is left.
    def go(scheduler)
      killed = true
      scheduler.run if scheduler.respond_to?(:run)
      killed = false
    rescue Shutdown
      killed = false
      raise
    rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again at the end
      raise if Process.pid != @process

      if stray?(e)
        @log.stray(e)
        retry
      end
      @failure ||= e
    ensure
      end_engine if (killed || @failure) && Process.pid == @process
    end

    # The thread was killed, or has raised what ends the server.
    def end_engine
      @engine.halt
      hurry
    end

    # Whether foreign code has raised it in this thread, which cannot have been meant for one of its fibers. An error
    # of the scheduler itself, which comes again and again, ends the server.
    def stray?(exception)
      return false if PROCESS.any? { |kind| exception.is_a?(kind) }

      (@strays += 1) <= MOST_STRAYS
    end

    # Before 3.2, Ruby keeps a scheduler whose end was interrupted.
    def detach
      Fiber.set_scheduler(nil)
    rescue Shutdown
      Fiber.set_scheduler(nil) if Fiber.scheduler
    end

    # The engine's fiber.
    def serve(scheduler)
      overdue = @engine.run_as_guest(scheduler, @max_fibers)
    rescue StandardError, SystemExit, SignalException, NoMemoryError => e
      @failure = e
      overdue = true
    ensure
      end_scheduler_after(overdue ? 0 : @grace) if Process.pid == @process
    end

    # A scheduler runs as long as it has fibers, and has no way to say that their time is over. The thread that does so
    # is made at the beginning: at the end there may be none to be had.
    def begin_reaper
      @reaper = Thread.new { reap(@limits.pop) }
      @reaper.name = "abaca guest"
      @reaper.report_on_exception = false
    end

    def end_scheduler_after(seconds) = @limits << (now + seconds)

    def reap(limit)
      sleep STEP until @ended || @hurried || now >= limit
      until @ended
        # One pending exception is enough while a fiber lets nothing through: a second one would hit the code that
        # follows.
        @thread.raise(Shutdown, "the server has stopped") unless @thread.pending_interrupt?
        limit = now + PAUSE
        sleep STEP until @ended || now >= limit
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # What the reaper raises comes while the block runs, and not in the middle of what follows it.
    def interruptible(&block)
      Thread.handle_interrupt(Shutdown => :never) do
        Thread.handle_interrupt(Shutdown => :immediate, &block)
      ensure
        # A kill alone does not reach a thread that was created while a fiber let nothing through.
        @ended = true
        @reaper&.kill&.join
      end
    rescue Shutdown
      nil
    end
  end
end
