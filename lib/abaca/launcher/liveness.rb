# frozen_string_literal: true

require_relative "last_beat"

module Abaca
  class Launcher
    # Whether a server serves: its engine turns, and requests that wait and have room are taken on. With spare loops,
    # that is so while a request computes.
    class Liveness
      # @param slot [Page::Slot] the server's
      # @param places [Integer] requests that may be in the app at once
      # @param clock [#call] returns seconds
      def initialize(slot, places, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
        @slot = slot
        @places = places
        @clock = clock
        @last_beat = LastBeat.new(slot)
        @since = 0
      end

      # To be asked every few seconds, by one thread.
      #
      # @param limit [Float] seconds
      # @return [Boolean] false if it has not for so long
      def within?(limit)
        figures = @slot.figures
        now = @clock.call
        @since = now unless waits?(figures) && figures[:requests] == @requests
        @requests = figures[:requests]
        (@last_beat.age(now) || 0) <= limit && now - @since <= limit
      end

      private

      # Those that are held wait for the app, others for a thread.
      def waits?(figures)
        figures[:waiting] > figures[:held] + figures[:for_thread] && figures[:in_app] < @places
      end
    end
  end
end
