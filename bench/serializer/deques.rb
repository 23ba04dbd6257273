# frozen_string_literal: true

module Bench
  # The queue of a serializer in Ruby: an array with two ends, and three ways to say that it is empty.
  # deques.c has the same in C.
  module Deques
    # One operation is an item that is queued and taken out again.
    class Deque
      NOBODY = Object.new.freeze # in the slots of items that were taken, so that they can be collected

      def initialize
        @items = Array.new(4, NOBODY)
        @front = @back = 0
      end

      def empty? = @front == @back

      def enqueue(item)
        make_room if @back == @items.size
        @items[@back] = item
        @back += 1
      end

      # @param items [Integer] queued before the queue is emptied
      # @param operations [Integer]
      # @return [Integer] octets that came out
      def run(items, operations, item)
        octets = done = 0
        while done < operations
          left = items
          while left.positive?
            enqueue(item)
            left -= 1
          end
          octets += drain
          @front = @back = 0
          done += items
        end
        octets
      end

      private

      # Moves the items to the start, or doubles the array.
      def make_room
        if @front.positive?
          count = @back - @front
          @items[0, count] = @items[@front, count]
          @items.fill(NOBODY, count, @front)
          @front = 0
          @back = count
        else
          @items.concat(Array.new(@items.size, NOBODY))
        end
      end

      def take
        item = @items[@front]
        @items[@front] = NOBODY
        @front += 1
        item
      end
    end

    # `dequeue` raises.
    class Raising < Deque
      class Empty < StandardError; end

      def dequeue
        raise Empty if empty?

        take
      end

      private

      def drain
        octets = 0
        octets += dequeue.bytesize while true # rubocop:disable Style/InfiniteLoop -- a block would cost
      rescue Empty
        octets
      end
    end

    # `dequeue` returns nil, which is Ruby's option.
    class Optional < Deque
      def dequeue = empty? ? nil : take

      private

      def drain
        octets = 0
        while (item = dequeue)
          octets += item.bytesize
        end
        octets
      end
    end

    # The caller asks first.
    class Checked < Deque
      def dequeue = take

      private

      def drain
        octets = 0
        octets += dequeue.bytesize until empty?
        octets
      end
    end

    ALL = { "exception" => Raising, "option" => Optional, "check" => Checked }.freeze
  end
end
