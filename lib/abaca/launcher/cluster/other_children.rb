# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Children of the master that are not its workers: those of plugins and hooks, which wait for them by themselves,
      # and, in a container where it is process 1, whatever others have left. One that has ended, and for which nobody
      # has waited for some seconds, is reaped.
      class OtherChildren
        # Seconds that its own parent's code has.
        PATIENCE = 3.0
        # Seconds between two looks, since each reads through all processes.
        PAUSE = 0.5
        private_constant :PATIENCE, :PAUSE

        # @param log [Log]
        # @param root [String] the folder that has `proc`
        def initialize(log, root: Platform.here.root)
          @log = log
          @proc = File.join(root, "proc")
          @found = {} # pid => when it was found to have ended
          @looked = -PAUSE
        end

        # A child has ended, perhaps one of these.
        def expect = @next = [now, @looked + PAUSE].max

        # @return [Float, nil] seconds until #reap has something to do; nil: nothing
        def due_in = @next && [@next - now, 0].max

        # Reaps those whose time is over.
        #
        # @param workers [Enumerable<Handle>] who are none
        def reap(workers)
          return unless @next && now >= @next

          @looked = now
          pids = ended_children - workers.map(&:pid)
          @found = pids.to_h { |pid| [pid, @found.fetch(pid, @looked)] }
          over = @found.select { |_, since| @looked - since >= PATIENCE }.each_key { |pid| take_leave(pid) }
          first = (@found.keys - over.keys).map { |pid| @found[pid] }.min
          @next = first && (first + PATIENCE)
        end

        private

        def take_leave(pid)
          _, status = Process.wait2(pid, Process::WNOHANG)
          return if status.nil? || Launcher.current&.stood_in?(pid)

          @log.warn("reaped unknown child process pid=#{pid} status=#{status}")
        rescue Errno::ECHILD
          nil # somebody has waited for it just now
        end

        def ended_children
          parent = Process.pid.to_s
          Dir.children(@proc).grep(/\A\d+\z/).select { |name| ended_child?(name, parent) }.map(&:to_i)
        rescue SystemCallError
          [] # no /proc
        end

        # The name of its program, in brackets, may have any characters.
        def ended_child?(name, parent)
          File.binread("#{@proc}/#{name}/stat").rpartition(")").last.split.first(2) == ["Z", parent]
        rescue SystemCallError
          false # it is gone
        end

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
