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

    # @param seconds [Float] how long the loop had been kept when this was noticed
    # @param env [Hash, nil] of the request; nil for none
    # @param backtrace [Array<String>] of the code that kept it
    # @param late [Boolean, :blocks] whether that was in code which Ruby could not interrupt, or in a call that blocked
    # @param request [Integer, nil] its number
    # @param since [Float, nil] when it began to keep the loop, on the monotonic clock
    # @param delays [Boolean] whether something lighter has waited because of it: only then it is logged
    # @param again [Boolean] whether it was told before, when nothing had
    def call(seconds, env, backtrace, late, request = nil, since = nil, delays = true, again = false)
      @events&.call(since ? [@clock.call - since, seconds].max : seconds, env, backtrace, request) unless again
      return unless delays

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
