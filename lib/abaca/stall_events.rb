# frozen_string_literal: true

require_relative "frames"

module Abaca
  # Notes the requests that have kept their loop as events of the slot: the route, as far as it is known, and the first
  # frames. A place in the app is noted once in a second, so that one which stalls all the time leaves others theirs.
  class StallEvents
    # Where frameworks leave the route's pattern in an env.
    ROUTES = %w[abaca.route action_dispatch.route_uri_pattern sinatra.route http.route].freeze
    # Frames.
    MOST = 3
    # Places whose times are remembered.
    PLACES = 100
    private_constant :ROUTES, :MOST, :PLACES

    # @param slot [Page::Slot]
    # @param clock [#call] tells seconds
    def initialize(slot, clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      @slot = slot
      @clock = clock
      @noted = {}
    end

    # @param seconds [Float] how long the loop is kept until now
    # @param env [Hash, nil] of the request; nil for none
    # @param backtrace [Array<String>] of the code that kept it
    # @param request [Integer, nil] its number
    # @return [Integer, nil] the event's number; nil: there is none
    def call(seconds, env, backtrace, request)
      place = Frames.top(backtrace).to_s
      return unless due?(place)

      text = [route(env), frames(place, backtrace)].compact.join(" ")
      @slot.begin_event(:stall, text, request:, time: seconds)
    end

    # @param number [Integer] of an event
    # @param seconds [Float] how long the loop was kept
    # @param computed [Float] CPU time of it; 0: not known
    def over(number, seconds, computed) = @slot.end_event(number, seconds, computed)

    private

    def due?(place)
      now = @clock.call
      return false if @noted.key?(place) && now - @noted[place] < 1

      @noted.clear if @noted.size >= PLACES
      @noted[place] = now
    end

    def route(env) = env && ROUTES.filter_map { |key| env[key] }.find { |value| value.is_a?(String) }

    # An event's text is short: behind the app's line, of a path only the file.
    def frames(place, backtrace)
      own = Frames.without_own(backtrace)
      from = own.index { |frame| frame.end_with?(place) } || 0
      others = [*own[from + 1, MOST - 1]].map { |frame| frame[%r{[^/]+:\d+}] || frame }
      [Frames.place(backtrace), *others].compact.join(" < ")
    end
  end
end
