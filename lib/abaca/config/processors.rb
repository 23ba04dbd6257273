# frozen_string_literal: true

require "etc"

module Abaca
  class Config
    # How many workers suit this machine, or the part of it that the process may use: `workers :auto`. It is the least
    # of the processors that the process may run on and of `cpu.max`, rounded up, in its cgroup (version 2) and all
    # above that. As many as fit into the least `memory.max` are the most, at 256 MB each. There is at least one.
    class Processors
      # Bytes that one worker is expected to take: a middling Rails app.
      MEMORY = 256 * 1024 * 1024
      # The variable that says a number instead.
      VARIABLE = "ABACA_CPUS"
      # cpu.max: microseconds of each period.
      QUOTA = /\A(\d+) ([1-9]\d*)$/
      private_constant :QUOTA

      # @param root [String] the folder that has `proc` and `sys`
      # @param affinity [Integer] processors that the process may run on
      # @param env [#[]] the environment's variables
      def initialize(root: Platform.here.root, affinity: Etc.nprocessors, env: ENV)
        @root = root
        @affinity = affinity
        @env = env
      end

      # @return [Integer] from 1
      # @raise [ConfigError] when ABACA_CPUS is no number
      def workers = given || [[@affinity, quota, fitting].compact.min, 1].max

      private

      def given
        text = @env[VARIABLE]
        return if text.nil? || text.empty?

        number = Integer(text, 10, exception: false)
        number&.positive? ? number : raise(ConfigError, "#{VARIABLE}: a number from 1 is needed, not #{text.inspect}")
      end

      # Processors that the cgroups grant, half ones counted whole.
      def quota
        read("cpu.max").filter_map do |text|
          microseconds, period = QUOTA.match(text)&.captures
          (Integer(microseconds, 10) / Rational(period)).ceil if period
        end.min
      end

      # Workers that fit into the memory.
      def fitting = read("memory.max").grep(/\A\d+$/).map { |text| Integer(text.chomp, 10) / MEMORY }.min

      # This file's text in our cgroup and in all above it, where there is one.
      def read(file)
        folders.filter_map do |folder|
          File.read(File.join(@root, "sys/fs/cgroup", folder, file))
        rescue SystemCallError
          nil
        end
      end

      # Our cgroup's path, and those of its parents. One outside the namespace begins with `..`, and only the
      # namespace's root can be read then.
      def folders
        names = path.split("/").reject(&:empty?)
        names = [] if names.first == ".."
        (0..names.size).map { |count| File.join("/", *names.first(count)) }
      end

      def path
        File.foreach(File.join(@root, "proc/self/cgroup")) { |line| return line.chomp[3..] if line.start_with?("0::") }
        ""
      rescue SystemCallError
        ""
      end
    end
  end
end
