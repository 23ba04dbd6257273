# frozen_string_literal: true

require_relative "cgroup"
require_relative "process_files"
require_relative "trend"

module Abaca
  class Sight
    # What a server's processes take of the machine, from one look to the next.
    class Machine
      # Seconds between two readings of a process's memory, which the process notices.
      MEMORY_EACH = 10
      # Of one moment: `processes` by pid, seconds `throttled`, and the limits.
      Sample = Struct.new(:processes, :throttled, :processors, :memory, :memory_limit, :pressure, keyword_init: true)

      # @param root [String] the folder that has /proc and /sys
      def initialize(root: Platform.here.root)
        @root = root
        @files = ProcessFiles.new(root:)
        @memories = {} # pid => [when, Memory, Trend]
      end

      # @return [ProcessFiles]
      attr_reader :files

      # @param pids [Array<Integer>] of the server; the first is the one whose limits count
      # @param now [Float] monotonic seconds
      # @return [Sample]
      def sample(pids, now)
        @memories.keep_if { |pid, _| pids.include?(pid) }
        pids.each { |pid| read_memory(pid, now) }
        group = @group ||= Cgroup.new(pids.first && @files.cgroup(pids.first), root: @root)
        processes = pids.to_h { |pid| [pid, @files.sample(pid)] }.compact
        Sample.new(processes:, throttled: group.throttled, processors: group.processors, pressure: group.pressure,
                   **memory(group))
      end

      # @param pid [Integer]
      # @return [ProcessFiles::Memory, nil] at most ten seconds old
      def memory_of(pid) = @memories.dig(pid, 1)

      # @param pid [Integer]
      # @return [Float, nil] bytes that its own memory grows by in a second
      def growth_of(pid) = @memories[pid]&.last&.slope

      private

      # A limit of the cgroup, or else what the processes have of the machine.
      def memory(group)
        limit = group.memory_limit
        used = group.memory
        return { memory: used, memory_limit: limit } if limit && used

        shares = @memories.each_value.filter_map { |_, memory| memory&.pss }
        { memory: (shares.sum unless shares.empty?), memory_limit: @total ||= @files.machine_memory }
      end

      def read_memory(pid, now)
        at, = @memories[pid]
        return if at && now - at < MEMORY_EACH

        trend = @memories[pid]&.last || Trend.new
        found = @files.memory(pid)
        trend.add(now, found.anonymous) if found
        @memories[pid] = [now, found, trend]
      end
    end
  end
end
