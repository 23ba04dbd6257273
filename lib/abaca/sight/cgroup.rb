# frozen_string_literal: true

require "etc"

module Abaca
  class Sight
    # The limits that a process runs in, and how near it is to them: the files of its cgroup (version 2). What is not
    # there is nil.
    class Cgroup
      PRESSURES = %i[cpu memory io].freeze
      private_constant :PRESSURES

      # @param path [String, nil] of the process among the cgroups
      # @param root [String] the folder that has /sys and /proc
      def initialize(path, root: Platform.here.root)
        @pressure = File.join(root, "proc/pressure")
        top = File.join(root, "sys/fs/cgroup")
        # In a namespace of its own, a process may see its cgroup as the top.
        @folders = path && !path.include?("..") ? folders(top, path) : [top]
        @folder = @folders.find { |folder| File.exist?(File.join(folder, "cpu.stat")) } || top
      end

      # @return [Float, nil] seconds in which it was not allowed to run, in all
      def throttled = number("cpu.stat", /^throttled_usec (\d+)/)&.fdiv(1e6)

      # @return [Float] processors that it may use
      def processors
        limits = @folders.filter_map do |folder|
          quota, period = read(folder, "cpu.max")&.split
          quota.to_i.fdiv(period.to_i) if quota&.match?(/\A\d+\z/) && period.to_i.positive?
        end
        [*limits, Etc.nprocessors.to_f].min
      end

      # @return [Integer, nil] bytes that it has; cached files that are not in use do not count
      def memory
        current = number("memory.current", /\A(\d+)/)
        current && [current - number("memory.stat", /^inactive_file (\d+)/).to_i, 0].max
      end

      # @return [Integer, nil] bytes that it may have; nil: no limit
      def memory_limit
        @folders.filter_map { |folder| read(folder, "memory.max")&.slice(/\A\d+/)&.to_i }.min
      end

      # @return [Hash{Symbol => Float}] by :cpu, :memory and :io, percent of ten seconds in which somebody waited
      def pressure
        PRESSURES.filter_map do |name|
          text = read(@folder, "#{name}.pressure") || read(@pressure, name.to_s)
          share = text&.slice(/^some avg10=([\d.]+)/, 1)
          [name, share.to_f] if share
        end.to_h
      end

      private

      # From the innermost to the top: a limit of any of them holds.
      def folders(top, path)
        names = path.split("/").reject(&:empty?)
        names.size.downto(0).map { |count| File.join(top, *names.first(count)) }
      end

      def number(name, pattern) = read(@folder, name)&.slice(pattern, 1)&.to_i

      def read(folder, name)
        File.read(File.join(folder, name))
      rescue SystemCallError
        nil
      end
    end
  end
end
