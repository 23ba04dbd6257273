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
    # A frame that loads code, by the names that Ruby 3.1 to 3.4 give it.
    LOADING = /in [`'](?:Kernel[#.])?(?:require|require_relative|load|autoload)'\z/
    private_constant :LOADING

    # @param log [Log]
    # @param events [StallEvents, nil] gets them all, too
    # @param clock [#call] tells seconds
    def initialize(log, events = nil, clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      @log = log
      @events = events
      @clock = clock
      @made = clock.call
      @places = {}
    end

    # @param record [Array] of: seconds for which the loop had been kept when this was noticed; the request's env,
    #   Hash or nil; the backtrace of the code that kept it; whether that was in code which Ruby could not interrupt,
    #   true or false, in a call that blocked the thread, :blocks, or in a wait of a blocking fiber, :fiber; the
    #   request's number, Integer or nil; since when the loop was kept, seconds on the monotonic clock or nil; and
    #   :none when nothing lighter has waited because of it, which is logged only for :fiber, :seen when something
    #   has, :later when something has, and :none was told before
    def call(*record)
      seconds, env, backtrace, late, request, since, delay = record
      kept = since ? [@clock.call - since, seconds].max : seconds
      @events&.call(kept, env, backtrace, request) unless delay == :later
      return if delay == :none && late != :fiber

      loads = @clock.call - @made < FIRST && backtrace.any?(LOADING)
      place = Frames.top(backtrace).to_s
      return unless first?(loads ? :loading : place)

      loads ? @log.loading(seconds, env, place) : @log.stall(seconds, env, place, late)
    end

    private

    def first?(place)
      return false if @places.key?(place) || @places.size >= PLACES

      @places[place] = true
    end
  end
end
