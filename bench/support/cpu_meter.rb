# frozen_string_literal: true

module Bench
  # Time on a CPU, as the kernel's scheduler counts it: the first field of
  # /proc/PID/task/TID/schedstat, in nanoseconds, of every thread of a process and its descendants.
  #
  # A thread that ends takes its count with it. The meter therefore notes the threads, and says when
  # some of them have gone between two readings.
  class CpuMeter
    # `nanoseconds` on a CPU since the start; `lost` is true when a thread ended in between.
    Reading = Struct.new(:nanoseconds, :lost, keyword_init: true)

    # @param pid [Integer] the server's first process
    def initialize(pid)
      @pid = pid
    end

    # Remembers what every thread has used so far.
    def start
      @before = by_thread
      self
    end

    # @return [Reading] what was used since `start`
    def stop
      after = by_thread
      used = after.sum { |thread, nanoseconds| nanoseconds - @before.fetch(thread, 0) }
      Reading.new(nanoseconds: used, lost: !(@before.keys - after.keys).empty?)
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

    def by_thread
      paths = self.class.family(@pid).flat_map { |pid| Dir.glob("/proc/#{pid}/task/*/schedstat") }
      paths.to_h { |path| [path, self.class.read(path).to_i] }
    end
  end
end
