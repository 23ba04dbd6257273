# frozen_string_literal: true

require_relative "frames"

module Abaca
  # Logs the requests that have kept their loop: each place in the app once. The first requests load code, often much
  # of it, so in the first minute one line stands for all of that.
  class StallReports
    # The number of places that are remembered; others are only counted (Server#stats).
    PLACES = 500
    # Seconds.
    FIRST = 60
    # A stall that lasts. event: the number of its event, or nil; env: the request's, or {}, if its end is to be logged
    Stall = Struct.new(:event, :env)
    # A frame that loads code, by the names that Ruby 3.1 to 3.4 give it.
    LOADING = /in [`'](?:Kernel[#.])?(?:require|require_relative|load|autoload)'\z/
    private_constant :Stall, :LOADING

    # @param log [Log]
    # @param events [StallEvents, nil] gets them all, too
    # @param clock [#call] tells seconds
    def initialize(log, events = nil, clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      @log = log
      @events = events
      @clock = clock
      @made = clock.call
      @places = {}
      @lasting = {}
    end

    # A loop is kept from its work.
    #
    # @param number [Integer] of the stall
    # @param record [Array] of: seconds for which the loop had been kept when this was noticed; the request's env,
    #   Hash or nil; the backtrace of the code that kept it; whether that was in code which Ruby could not interrupt,
    #   true or false, in a call that blocked the thread, :blocks, or in a wait of a blocking fiber, :fiber; the
    #   request's number, Integer or nil; since when the loop was kept, seconds on the monotonic clock or nil; and
    #   :none when nothing lighter has waited because of it, which is logged only for :fiber, :seen when something
    #   has, :later when something has, and :none was told before
    def call(number, *record)
      seconds, env, backtrace, late, request, since, delay = record
      kept = since ? [@clock.call - since, seconds].max : seconds
      stall = @lasting[number] ||= Stall.new
      stall.event ||= @events&.call(kept, env, backtrace, request) unless delay == :later
      stall.env = env || {} if (delay != :none || late == :fiber) && told?(seconds, env, backtrace, late)
    end

    # A stall is over.
    #
    # @param number [Integer] of the stall
    # @param seconds [Float] how long it was
    # @param computed [Float] CPU time of it; 0: not known
    # @param waited [Integer] requests that could not begin at once meanwhile
    def over(number, seconds, computed, waited)
      stall = @lasting.delete(number) or return
      @events.over(stall.event, seconds, computed) if stall.event
      @log.stall_over(seconds, computed, waited, stall.env) if stall.env
    end

    private

    # Logs it. Returns whether its end is to be logged, too.
    def told?(seconds, env, backtrace, late)
      loads = @clock.call - @made < FIRST && backtrace.any?(LOADING)
      place = Frames.top(backtrace).to_s
      return false unless first?(loads ? :loading : place)

      loads ? @log.loading(seconds, env, place) : @log.stall(seconds, env, place, late)
      !loads
    end

    def first?(place)
      return false if @places.key?(place) || @places.size >= PLACES

      @places[place] = true
    end
  end
end
