# frozen_string_literal: true

require "etc"

# Work that other processes do, a compiler above all: as much of it at once as there are processors.
module AtOnce
  # @param items [Array]
  # @yield each item, on a thread
  # @return [Array] what the block has made of them
  def self.map(items)
    places = Queue.new(items.each_index).close
    made = Array.new(items.size)
    workers = Array.new(Etc.nprocessors) do
      Thread.new do
        while (place = places.pop)
          made[place] = yield items[place]
        end
      end
    end
    workers.each(&:join)
    made
  end
end
