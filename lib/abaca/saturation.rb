# frozen_string_literal: true

module Abaca
  # Logs, at most once a minute, that requests which compute keep each other waiting: how many they were, how long they
  # computed, on which routes, and how long others waited. Nothing is wrong with any of them alone, so none is named
  # as one that keeps its loop.
  class Saturation
    # Seconds between two lines.
    PAUSE = 60
    # Requests that have waited, for a line.
    LEAST = 10
    # Routes that are named.
    ROUTES = 3
    private_constant :ROUTES

    # @param log [Log]
    def initialize(log)
      @log = log
      @since = nil
    end

    # @param engine [Engine] whose counts begin anew with each line
    # @param now [Float] seconds of the monotonic clock
    # @return [nil]
    def look(engine, now = Process.clock_gettime(Process::CLOCK_MONOTONIC))
      @since ||= now
      return if now - @since < PAUSE

      load = engine.saturation
      tell(load, now - @since) if load && load[:waited] >= LEAST
      @since = now
      nil
    end

    private

    def tell(load, seconds)
      routes = load[:routes].first(ROUTES).map { |name, time| "#{name || "other paths"} #{share(time, load)} %" }
      @log.warn("#{load[:requests]} requests computed for #{load[:computed].round(1)} s in the last " \
                "#{seconds.round} s (#{routes.join(", ")}); #{load[:waited]} of them waited for others before, up to " \
                "#{load[:longest].round(1)} s: more workers, or less work per request, make that shorter " \
                "(docs/stalls.md#saturation)")
    end

    def share(time, load) = (100 * time / load[:computed]).round
  end
end
