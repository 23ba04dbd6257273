# frozen_string_literal: true

module Abaca
  class Dashboard
    # Looks at a page once a second while somebody watches, however many they are.
    class Pulse
      # Seconds for which a look is good, and after which it says nothing about the next one's rates.
      FRESH = 0.45
      OLD = 30.0
      private_constant :FRESH, :OLD

      # @param page [Page]
      # @yieldreturn [Sight] that has no look yet
      def initialize(page, &make)
        @page = page
        @make = make
        @lock = Mutex.new
      end

      # @yieldparam look [Sight::Look] which is nobody else's meanwhile
      # @yieldparam sight [Sight]
      # @return [Object] what the block returns
      def look
        @lock.synchronize do
          renew
          yield @look, @sight
        end
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def renew
        age = @look ? now - @look.now.at : OLD
        return if age < FRESH

        @sight = @make.call if age >= OLD
        @look = @sight.look
      end
    end
  end
end
