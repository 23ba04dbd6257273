# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # The workers that run, in the master.
      class Workers
        include Enumerable

        # @param log [Log]
        def initialize(log)
          @other_children = OtherChildren.new(log)
          expect_other_child # one may have ended before there was a handler
          @handles = {} # by the number of the slot
        end

        def each(&) = @handles.values.each(&)

        # @param handle [Handle]
        def <<(handle)
          @handles[handle.slot.index] = handle
          self
        end

        # @param pid [Integer]
        # @return [Handle, nil]
        def [](pid) = find { |handle| handle.pid == pid }

        # @param slot [Integer] its number
        # @return [Handle, nil] of a worker there that has not reported its process yet
        def awaited(slot) = (handle = @handles[slot]) && handle.pid.nil? ? handle : nil

        # @return [Handle, nil] from which others can be forked
        def first = find { |handle| handle.index.zero? && handle.can_fork? }

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
        def expect_other_child = @other_children.expect

        # @return [Float, nil] seconds until such a one has to be looked at
        def due_in = @other_children.due_in

        # Takes leave of the workers that have ended. A child of a plugin or of a hook is theirs to wait for.
        #
        # @return [Array<Handle>]
        def reap
          ended = select { |handle| handle.pid ? ended?(handle) : lost?(handle) }
          ended.each { |handle| @handles.delete(handle.slot.index) }
          @other_children.reap(self)
          ended
        end

        private

        def lost?(handle)
          handle.end_with(nil) if handle.lost?
          handle.ended?
        end

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
