# frozen_string_literal: true

require "etc"

module Abaca
  class Sight
    # What the kernel says of a process, whether or not it is able to say anything itself.
    class ProcessFiles
      # `state` is the kernel's letter (T: stopped), `cpu` seconds that all its threads have computed, `rss` bytes.
      Sample = Struct.new(:state, :cpu, :rss)
      # Bytes: its share of what it has in memory, and what is its own and no file's.
      Memory = Struct.new(:pss, :anonymous)

      PAGE = Etc.sysconf(Etc::SC_PAGESIZE)
      TICKS = Etc.sysconf(Etc::SC_CLK_TCK).to_f
      # "abaca 0.1.0 (URLS) [TAG]", or a worker's.
      TITLE = /\Aabaca (?<version>\d\S*) \(.*\)(?: \[(?<tag>.*)\])?(?: stand-in)?\z/m
      private_constant :PAGE, :TICKS, :TITLE

      # @param root [String] the folder that has /proc
      def initialize(root: Platform.here.root)
        @proc = File.join(root, "proc")
      end

      # @param pid [Integer]
      # @return [Sample, nil] nil if there is no such process
      def sample(pid)
        # The name, in brackets, may have any character.
        text = read(pid, "stat") or return
        fields = text.rpartition(") ").last.split
        Sample.new(fields[0], (fields[11].to_i + fields[12].to_i) / TICKS, fields[21].to_i * PAGE)
      end

      # This keeps the process from changing its memory meanwhile, so it is not for each look.
      #
      # @param pid [Integer]
      # @return [Memory, nil] nil if it is not known
      def memory(pid)
        sizes = read(pid, "smaps_rollup")&.scan(/^(Pss|Anonymous): +(\d+) kB$/).to_h
        Memory.new(*sizes.values_at("Pss", "Anonymous").map { |size| size.to_i * 1024 }) if sizes.size == 2
      end

      # @param pid [Integer] a master's, or that of a single process
      # @return [Hash{Symbol => String}] `version` and `tag`, as far as its title has them
      def title(pid)
        found = TITLE.match(command_line(pid).strip)
        found ? found.named_captures.compact.transform_keys(&:to_sym) : {}
      end

      # @param pid [Integer]
      # @return [String, nil] its path among the cgroups of version 2
      def cgroup(pid) = read(pid, "cgroup")&.slice(/^0::(.*)$/, 1)

      # @return [Integer, nil] bytes of the machine
      def machine_memory
        File.read(File.join(@proc, "meminfo"))[/^MemTotal: +(\d+) kB/, 1]&.to_i&.*(1024)
      rescue SystemCallError
        nil
      end

      private

      # Where there is no /proc, ps(1) tells, at a price that a look once in a while has.
      def command_line(pid)
        text = read(pid, "cmdline") and return text.tr("\0", " ")

        IO.popen(["ps", "-o", "args=", "-p", pid.to_s], err: File::NULL, &:read)
      rescue SystemCallError
        "" # nor is there ps
      end

      def read(pid, name)
        File.binread(File.join(@proc, pid.to_s, name))
      rescue SystemCallError
        nil
      end
    end
  end
end
