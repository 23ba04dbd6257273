# frozen_string_literal: true

module Abaca
  class Metrics
    # What the process's cgroup (version 2) says: how it is limited, and what its tasks wait for. Only what is there.
    class Machine
      # @param root [String] the folder that has `proc` and `sys`
      def initialize(root: Platform.here.root)
        @root = root
      end

      # @param text [Text]
      def write(text, _found)
        text.counter("abaca_cgroup_cpu_throttled_seconds_total", "Time that the CPU limit has kept the cgroup waiting.",
                     seconds(read("cpu.stat")[/^throttled_usec (\d+)/, 1]))
        text.gauge("abaca_cgroup_memory_bytes", "Memory of the cgroup, page cache included; max: its limit.",
                   { { kind: "current" } => number("memory.current"), { kind: "max" } => number("memory.max") })
        text.counter("abaca_oom_kills_total", "Processes of the cgroup that were killed for want of memory.",
                     read("memory.events")[/^oom_kill (\d+)/, 1]&.to_i)
        text.counter("abaca_pressure_seconds_total", "Time in which some, or all, tasks of the cgroup waited.",
                     pressure)
      end

      private

      def pressure
        %w[cpu memory io].each_with_object({}) do |resource, found|
          read("#{resource}.pressure").scan(/^(some|full) .*total=(\d+)/) do |kind, time|
            found[{ resource:, kind: }] = seconds(time)
          end
        end
      end

      def seconds(text) = text && (text.to_i / 1e6)

      # nil for "max": there is no limit.
      def number(file) = read(file)[/\A\d+$/]&.to_i

      def read(file)
        File.read(File.join(@root, "sys/fs/cgroup", folder, file))
      rescue SystemCallError
        ""
      end

      # Outside the namespace the path begins with `..`, and only the namespace's root can be read.
      def folder
        @folder ||= begin
          path = File.read(File.join(@root, "proc/self/cgroup"))[/^0::(.*)$/, 1].to_s
          path.start_with?("/..") ? "/" : path
        end
      end
    end
  end
end
