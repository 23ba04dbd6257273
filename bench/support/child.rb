# frozen_string_literal: true

require "fileutils"

module Bench
  # A process that a benchmark starts and, whatever happens, ends. Only processes started here are
  # ever signalled, by their ids.
  class Child
    # Variables by which an outer `bundle exec` would reach into the servers.
    CLEAN = %w[RUBYOPT RUBYLIB BUNDLE_GEMFILE BUNDLE_BIN_PATH BUNDLER_VERSION GEM_HOME GEM_PATH]
            .to_h { |name| [name, nil] }.freeze
    GRACE = 5 # seconds between TERM and KILL
    EVERY = 0.001 # seconds between two looks whether it is ready

    attr_reader :pid, :log

    class << self
      # Ends what is still running when the benchmark exits, also after Ctrl-C.
      def remember(child)
        @children ||= begin
          at_exit { @children.each(&:stop) }
          []
        end
        @children << child
      end

      # Runs a command to its end.
      #
      # @param seconds [Numeric] that it may take
      # @param options [Hash] of #initialize
      # @return [(String, Process::Status)] what it has said, and how it ended; nil if it had to be ended
      def run(command, seconds:, **options)
        child = new(command, **options)
        status = child.wait(seconds: seconds)
        [File.read(child.log), status]
      ensure
        child&.stop
      end
    end

    # @param command [Array<String>] the program and its arguments
    # @param name [String] names the log file
    # @param env [Hash] variables on top of a clean environment
    # @param cpu [Integer, nil] the CPU to pin to
    # @param files [Integer, nil] the limit of open files to ask for
    def initialize(command, name:, env: {}, cpu: nil, files: nil)
      FileUtils.mkdir_p(TMP)
      @name = name
      @log = File.join(TMP, "#{name}.log")
      command = ["taskset", "-c", cpu.to_s, *command] if cpu
      options = { in: File::NULL, out: @log, err: %i[child out], chdir: ROOT, pgroup: true }
      options[:rlimit_nofile] = [files, files] if files
      @pid = Process.spawn(CLEAN.merge(env), *command, options)
      @ended = nil
      self.class.remember(self)
    end

    # @return [Boolean]
    def running?
      @ended ||= Process.wait2(@pid, Process::WNOHANG)&.last
      @ended.nil?
    end

    # @return [Process::Status, nil] how it ended; nil when it has not within `seconds`
    def wait(seconds:)
      Clock.wait_until(seconds: seconds, every: 0.02) { !running? }
      @ended
    end

    # Waits until the block is true.
    # @raise [Failed] when the process ends first or the time is over, with the end of its log
    def wait_ready(seconds:)
      ready = Clock.wait_until(seconds: seconds, every: EVERY) { !running? || yield }
      return if ready && running?

      stop
      what = ready ? "ended at once" : "not ready after #{seconds} s"
      raise Failed, "#{what}: #{last_words}"
    end

    # TERM, a grace, then KILL, to the process and its descendants. Safe to call twice.
    def stop
      return unless running?

      family = CpuMeter.family(@pid).to_h { |pid| [pid, started_at(pid)] }
      signal("TERM", family.slice(@pid))
      wait(seconds: GRACE)
      signal("KILL", family)
      wait(seconds: GRACE)
    end

    # @return [Integer] resident set of the process and its descendants, in bytes
    def resident = memory("VmRSS")

    # @return [Integer] memory of the process and its descendants, in bytes: pages that several share count in part
    def proportional
      CpuMeter.family(@pid).sum { |pid| CpuMeter.read("/proc/#{pid}/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i * 1024 }
    end

    # @return [Integer] the part of `resident` that is backed by no file, in bytes
    def anonymous = memory("RssAnon")

    # @return [Integer] the sum of the highest resident sets so far, in bytes
    def peak_resident = memory("VmHWM")

    # @return [String] the last line of the log that says something
    def last_words
      lines = File.exist?(@log) ? File.readlines(@log).map(&:strip) : []
      lines.grep(/error|cannot|could not|undefined|fail/i).first || lines.reject(&:empty?).last || "no output"
    end

    private

    def memory(field)
      CpuMeter.family(@pid).sum do |pid|
        CpuMeter.read("/proc/#{pid}/status")[/^#{field}:\s+(\d+)/, 1].to_i * 1024
      end
    end

    # An id may have been given away since it was noted: only the same process, which started at the
    # same time, is signalled.
    def signal(name, family)
      family.each do |pid, start|
        Process.kill(name, pid) if start && started_at(pid) == start
      rescue Errno::ESRCH
        next
      end
    end

    # Field 22 of /proc/PID/stat (the fields after the name, which may hold spaces).
    def started_at(pid)
      CpuMeter.read("/proc/#{pid}/stat")[/\) (.+)\z/m, 1]&.split&.fetch(19)
    end
  end
end
