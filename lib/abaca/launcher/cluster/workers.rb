# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # The workers that run, in the master.
      class Workers
        include Enumerable

        # @param log [Log]
        def initialize(log)
          @strangers = Strangers.new(log)
          @handles = {} # by pid
        end

        def each(&) = @handles.values.each(&)

        # @param handle [Handle]
        def <<(handle)
          @handles[handle.pid] = handle
          self
        end

        # @param pid [Integer]
        # @return [Handle, nil]
        def [](pid) = @handles[pid]

        def empty? = @handles.empty?

        # Those that serve or boot, and were not told to end.
        def active = select(&:active?)

        # @return [Integer] the first number that no active worker has
        def free_index
          taken = active.map(&:index)
          (0..).find { |index| !taken.include?(index) }
        end

        # @return [Array<Page::Slot>] those that workers have
        def slots = map(&:slot)

        # A child has ended: perhaps one that is no worker.
        def expect_stranger = @strangers.expect

        # @return [Float, nil] seconds until such a one has to be looked at
        def due_in = @strangers.due_in

        # Takes leave of the workers that have ended. A child of a plugin or of a hook is theirs to wait for.
        #
        # @return [Array<Handle>]
        def reap
          ended = select { |handle| ended?(handle) }
          ended.each { |handle| @handles.delete(handle.pid) }
          @strangers.reap(self)
          ended
        end

        private

        def ended?(handle)
          _, status = Process.wait2(handle.pid, Process::WNOHANG)
          handle.end_with(status) if status
          status
        rescue Errno::ECHILD # other code has waited for any child
          handle.end_with(nil)
          true
        end
      end
    end
  end
end
