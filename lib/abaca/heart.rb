# frozen_string_literal: true

module Abaca
  # The heartbeats of a server that runs in a slot of the page. They come from a thread of their own, so each says that
  # Ruby still runs its threads in turn; and none comes while the engine does not turn. A request that computes stops
  # neither, an extension that keeps Ruby's lock stops both. With each the page gets what the process is as a whole,
  # and what its pools have, and the log what keeps a loop that cannot say so itself.
  module Heart
    # Seconds between two heartbeats.
    INTERVAL = 1

    # Runs the block, and beats meanwhile.
    #
    # @param engine [Engine]
    # @param slot [Page::Slot, nil] without one there is nothing to do
    # @param also [Array<#call>] is called with each heartbeat
    def self.beat(engine, slot, also = [])
      return yield unless slot

      begin
        thread = Thread.new do
          loop do
            engine.beat(Offloaded.count)
            engine.tell_stalls
            PoolGate.show
            also.each(&:call)
            sleep(INTERVAL)
          end
        end
        thread.name = "abaca heart"
        yield
      ensure
        thread&.kill&.join
      end
    end
  end
end
