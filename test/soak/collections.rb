# frozen_string_literal: true

module Soak
  # The collector at its worst, for what C code keeps without telling: windows in which every allocation collects, and
  # objects that move in each long collection.
  module Collections
    PAUSE = 1.0 # seconds between two windows
    # What GC.stress is set to, and for how long at least: each collection marks everything and moves it, which takes
    # 20 ms, or only looks at what is new.
    WINDOWS = [[1, 0.2], [true, 0]].freeze

    LOCK = Mutex.new

    def self.begin
      compact
      Thread.new do
        WINDOWS.cycle do |stress, seconds|
          sleep PAUSE
          LOCK.synchronize { window(stress, seconds) }
        end
      end
    end

    # Runs the block outside of the windows: for a fork, before which support/quiet_fork.rb makes many objects in a
    # loop that stands still.
    def self.aside(&) = LOCK.synchronize(&)

    def self.window(stress, seconds)
      GC.stress = stress
      sleep seconds
    ensure
      GC.stress = false
    end
    private_class_method :window

    # A long collection under way is ended first. Ruby 3.1 would move objects at its end that it has not pinned, those
    # in C memory and the Proc of a starting thread among them, and crash: it decides whether to pin when a collection
    # begins to mark, and whether to move when it has marked.
    def self.compact
      GC.start
      GC.auto_compact = true
    rescue NoMethodError, NotImplementedError
      nil # this machine's Ruby cannot move objects
    end
    private_class_method :compact
  end
end
