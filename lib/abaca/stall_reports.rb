# frozen_string_literal: true

require_relative "frames"

module Abaca
  # Writes into the log which requests have kept their loop: each place of the app once. The first requests load
  # code, often much of it: in the first minute one line speaks for all of that.
  class StallReports
    # So many places are remembered; what comes beyond is only counted (Server#stats).
    PLACES = 500
    # Seconds.
    FIRST = 60
    # A frame of who loads code, by the names that Ruby 3.1 to 3.4 give it.
    LOADING = /in [`'](?:Kernel[#.])?(?:require|require_relative|load|autoload)'\z/
    private_constant :LOADING

    # @param log [Log]
    # @param clock [#call] tells seconds
    def initialize(log, clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      @log = log
      @clock = clock
      @made = clock.call
      @places = {}
    end

    # @param seconds [Float] for how long the loop was kept when this was found out
    # @param env [Hash, nil] of the request; nil when it was none
    # @param backtrace [Array<String>] of who kept it
    # @param late [Boolean] whether that was in code which Ruby could not interrupt
    def call(seconds, env, backtrace, late)
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
