# frozen_string_literal: true

require_relative "frames"

module Abaca
  # Writes into the log which requests have kept their loop: each place of the app once.
  class StallReports
    # So many places are remembered; what comes beyond is only counted (Server#stats).
    PLACES = 500
    # Frames of a backtrace that are written.
    FRAMES = 12

    # @param log [Log]
    def initialize(log)
      @log = log
      @places = {}
    end

    # @param seconds [Float] for how long the loop was kept when this was found out
    # @param env [Hash, nil] of the request; nil when it was none
    # @param backtrace [Array<String>] of who kept it
    # @param late [Boolean] whether that was in code which Ruby could not interrupt
    def call(seconds, env, backtrace, late)
      frames = Frames.without_own(backtrace)
      place = frames.first || backtrace.first.to_s
      return if @places.key?(place) || @places.size >= PLACES

      @places[place] = true
      @log.stall(seconds, env, frames.first(FRAMES), late)
    end
  end
end
