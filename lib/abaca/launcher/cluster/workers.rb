# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # The workers that run, in the master.
      class Workers
        include Enumerable

        # @param log [Log]
        def initialize(log)
          @log = log
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

        # Takes leave of all children that have ended: in a container, the master may be the parent of any process.
        #
        # @return [Array<Handle>] the workers among them
        def reap
          ended = []
          while (pid, status = Process.wait2(-1, Process::WNOHANG))
            handle = @handles.delete(pid)
            handle ? ended << handle : note_unknown(pid, status)
            handle&.end_with(status)
          end
          ended
        rescue Errno::ECHILD
          ended
        end

        private

        def note_unknown(pid, status)
          return if Launcher.current&.stood_in?(pid)

          @log.warn("reaped unknown child process pid=#{pid} status=#{status}")
        end
      end
    end
  end
end
