# frozen_string_literal: true

require "io/wait"

module Abaca
  class Launcher
    class Cluster
      # What the master tells the first worker, from which others are forked: lines in a pipe that is older than the
      # worker. #rest is the first order of a refork, and #serve the last one.
      class Orders
        # A line: its word, and numbers.
        Order = Struct.new(:word, :index, :phase, :slot)
        WORDS = %w[rest fork serve].freeze
        private_constant :WORDS

        def initialize
          @reader, @writer = IO.pipe
          @bell, @clapper = IO.pipe
        end

        # --- in the master ---

        # It shall stop serving, and say when it rests.
        def rest = send_line("rest 0 0 0")

        # It shall fork a worker.
        #
        # @param place [Place]
        def fork(place) = send_line("fork #{place.index} #{place.phase} #{place.slot.index}")

        # It shall serve again.
        #
        # @param phase [Integer] its generation from now on
        def serve(phase) = send_line("serve 0 #{phase} 0")

        # --- in the worker ---

        # Waits for the next order.
        #
        # @param seconds [Numeric, nil] at most; nil: as long as it takes
        # @return [Order, nil] nil if there is none, or #ring was called
        def next(seconds = nil)
          ready, = IO.select([@reader, @bell], nil, nil, seconds)
          word, *numbers = @reader.gets.to_s.split if ready && !ready.include?(@bell)
          Order.new(word.to_sym, *numbers.map(&:to_i)) if WORDS.include?(word)
        end

        # Ends the wait for orders, once and for all. A trap handler may call it.
        def ring
          @clapper.write_nonblock(".", exception: false)
        rescue IOError, SystemCallError
          nil # nobody waits any more
        end

        # In any process that has no use for it. Idempotent.
        def close = [@reader, @writer, @bell, @clapper].each(&:close)

        private

        def send_line(text)
          @writer.write_nonblock("#{text}\n", exception: false)
        rescue IOError, SystemCallError
          nil # the worker has ended, which is noticed elsewhere
        end
      end
    end
  end
end
