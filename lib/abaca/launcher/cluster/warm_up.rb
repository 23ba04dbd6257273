# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Prepares a process that has loaded the app for forks: what is garbage goes now, and what stays is old, so that
      # the collector of a worker leaves the pages alone that it shares with the others.
      module WarmUp
        # Collections after which an object is old.
        AGES = 4
        private_constant :AGES

        def self.run
          return Process.warmup if Process.respond_to?(:warmup) # Ruby 3.3

          AGES.times { GC.start }
          GC.compact if GC.respond_to?(:compact)
        rescue NotImplementedError
          nil # a platform without compaction
        end
      end
    end
  end
end
