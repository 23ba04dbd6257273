# frozen_string_literal: true

require "etc"
require "open3"

module Bench
  # The facts without which a figure means nothing.
  module Machine
    module_function

    # @return [Hash] kernel, CPU, Ruby, commit; nil for what cannot be found out
    def facts
      {
        time: Time.now.utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        kernel: Etc.uname.values_at(:sysname, :release, :machine).join(" "),
        cpu: cpu_model, cpus: Etc.nprocessors, memory_mb: memory_mb,
        load_average: read("/proc/loadavg"),
        congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        ruby: RUBY_DESCRIPTION, commit: commit, uncommitted_changes: dirty?
      }
    end

    # Has this process and what it starts come before others, or after them. The kernel shares the processors among
    # sessions first, where it groups by them: the niceness of a process counts among those of its session alone.
    #
    # @param nice [Integer]
    # @return [Array<String>] begins the command of whatever shall have this niceness
    def prefer(nice)
      before = read("/proc/self/autogroup").to_s[/nice (-?\d+)/, 1]
      if before
        File.write("/proc/self/autogroup", nice.to_s)
        at_exit { File.write("/proc/self/autogroup", before) }
      end
      ["nice", "-n", nice.to_s]
    end

    # @return [String, nil] what the command prints (either stream), stripped; nil when it fails
    def output_of(*command)
      text, status = Open3.capture2e(*command, chdir: ROOT)
      text.strip if status.success?
    rescue Errno::ENOENT
      nil
    end

    # @param root [String] of a checkout
    # @return [String, nil] the short id of the commit that is checked out
    def commit(root = ROOT)
      output_of("git", "-C", root, "rev-parse", "--short", "HEAD")
    end

    # @param root [String] of a checkout
    # @return [Boolean] whether what was measured differs from the commit, or git does not say: without git, or in the
    #   tree of another user
    def dirty?(root = ROOT)
      folders = %w[lib exe ext bench :!bench/results]
      output_of("git", "-C", root, "status", "--porcelain", "--", *folders) != ""
    end

    def cpu_model
      read("/proc/cpuinfo").to_s[/^model name\s*:\s*(.+)$/, 1]
    end

    def memory_mb
      kilobytes = read("/proc/meminfo").to_s[/^MemTotal:\s+(\d+)/, 1]
      kilobytes && (kilobytes.to_i / 1024)
    end

    def read(path)
      File.read(path).strip
    rescue SystemCallError
      nil
    end
    private_class_method :cpu_model, :memory_mb, :read
  end
end
