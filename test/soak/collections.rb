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

    SERVING = Queue.new
    private_constant :SERVING

    # Begins with the first request: where objects move while a server boots, with TLS in Ruby 3.1, it crashes now and
    # then in Ruby's own code.
    def self.begin
      Thread.new do
        SERVING.pop
        compact
        WINDOWS.cycle do |stress, seconds|
          sleep PAUSE
          LOCK.synchronize { window(stress, seconds) }
        end
      end
    end

    # There is a request. Idempotent.
    def self.serving = SERVING.close

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

    def self.compact
      GC.auto_compact = true
    rescue NoMethodError, NotImplementedError
      nil # this machine's Ruby cannot move objects
    end
    private_class_method :compact
  end
end
