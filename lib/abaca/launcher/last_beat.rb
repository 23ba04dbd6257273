# frozen_string_literal: true

module Abaca
  class Launcher
    # Remembers the last heartbeat of a slot, since a damaged page may say later that it was an earlier one.
    class LastBeat
      # @param slot [Page::Slot]
      def initialize(slot)
        @slot = slot
      end

      # @param now [Float] monotonic seconds
      # @return [Float, nil] seconds since the heartbeat; nil before the first one
      def age(now)
        age = @slot.beat_age
        @at = [@at, now - age].compact.max if age
        @at && (now - @at)
      end
    end
  end
end
