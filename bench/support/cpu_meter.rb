# frozen_string_literal: true

require "etc"

module Bench
  # Time on a CPU, as the kernel's scheduler counts it: the first field of
  # /proc/PID/task/TID/schedstat, in nanoseconds, of every thread of a process and its descendants.
  #
  # A thread that ends takes its count with it. The meter therefore notes the threads, and when some of them have gone
  # between two readings, or came and went, it takes the processes' own times, which keep what has ended: only as exact
  # as the kernel's ticks (10 ms).
  class CpuMeter
    # `nanoseconds` on a CPU since the start; `lost` is true when a thread or process ended in between.
    Reading = Struct.new(:nanoseconds, :lost, keyword_init: true)

    # @param pid [Integer] the server's first process
    def initialize(pid)
      @pid = pid
    end

    # By so many ticks a process's own time may differ, since its parts are rounded.
    ROUNDED = 4
    private_constant :ROUNDED

    # Remembers what every thread has used so far.
    def start
      @before = by_thread
      @ticks = self.class.ticks(self.class.family(@pid))
      self
    end

    # @return [Reading] what was used since `start`
    def stop
      after = by_thread
      used = after.sum { |thread, nanoseconds| nanoseconds - @before.fetch(thread, 0) }
      kept = by_process
      lost = !(@before.keys - after.keys).empty? || kept > used + (ROUNDED * tick)
      Reading.new(nanoseconds: lost ? [used, kept].max : used, lost: lost)
    end

    # Time of processes, of their threads that have ended too, and of their children that have ended, in ticks.
    # @param pids [Array<Integer>]
    # @return [Integer]
    def self.ticks(pids)
      # Fields 14 to 17 of /proc/PID/stat, counted after the name, which may hold spaces.
      pids.sum { |pid| read("/proc/#{pid}/stat")[/\) (.+)\z/m, 1].to_s.split[11, 4].to_a.sum(&:to_i) }
    end

    # @return [Array<Integer>] the process and all its descendants
    def self.family(pid)
      children = Dir.glob("/proc/#{pid}/task/*/children").flat_map { |path| read(path).split.map(&:to_i) }
      [pid] + children.flat_map { |child| family(child) }
    end

    # @return [String] the file's text, or "" when the process or thread has just ended
    def self.read(path)
      File.read(path)
    rescue Errno::ENOENT, Errno::ESRCH
      ""
    end

    private

    def by_process = (self.class.ticks(self.class.family(@pid)) - @ticks) * tick

    # In nanoseconds.
    def tick = 1_000_000_000 / Etc.sysconf(Etc::SC_CLK_TCK)

    def by_thread
      paths = self.class.family(@pid).flat_map { |pid| Dir.glob("/proc/#{pid}/task/*/schedstat") }
      paths.to_h { |path| [path, self.class.read(path).to_i] }
    end
  end
end
