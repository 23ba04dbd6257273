# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Prepares a process for forks: the master, or a worker from which others are forked.
      module WarmUp
        # Collections after which an object is old. Compaction has another one.
        AGES = 3
        private_constant :AGES

        class << self
          # @param config [Config]
          # @param preloaded [Boolean] whether the app is loaded
          def run(config, preloaded:)
            load(config)
            age if preloaded
          end

          # What is garbage goes now, and what stays is old, so that the collector of a worker leaves the pages alone
          # that it shares with the others.
          def age
            return Process.warmup if Process.respond_to?(:warmup) # Ruby 3.3

            AGES.times { GC.start }
            GC.compact if GC.respond_to?(:compact)
          rescue NotImplementedError
            nil # a platform without compaction
          end

          private

          # What every worker would load of Abaca. Some of it needs RubyGems, which a master outside of its bundle has
          # not.
          def load(config)
            return if PrunedBundle.left?

            require "rack"
            require "rack/builder"
            Compat.prepare
            Abaca.const_get(:FiberSafety) if App.fibers?(config)
            AccessLog.const_get(:Formats) if config[:log_requests]
          end
        end
      end
    end
  end
end
