# frozen_string_literal: true

require "open3"

module Bench
  # Looks at processes while they run: with `perf` where they are, with `strace` what they ask of the kernel.
  module Recorder
    RATE = 4999 # samples a second; no multiple of what a server does at a steady pace
    START = 10 # seconds until it has begun

    module_function

    # @raise [Unavailable] when one of them is not there, or perf may not look into processes and kernel
    def prepare
      FileUtils.mkdir_p(TMP)
      Tools.find("strace")
      text, status = Open3.capture2e(Tools.find("perf"), "record", "-q", "-e", "cpu-clock:k", "-o", file, "true")
      return if status.success?

      level = File.read("/proc/sys/kernel/perf_event_paranoid").strip
      reason = text.lines.map(&:strip).reject { |line| line.empty? || line == "Error:" }.first
      raise Unavailable, "perf may not record here (kernel.perf_event_paranoid is #{level}): #{reason}"
    end

    # Records while the block runs.
    # @param pids [Array<Integer>]
    # @param cpu [Integer, nil] the CPU to pin perf to
    # @return [String] what `perf report` says, for Samples
    def samples(pids, cpu: nil, &block)
      command = [Tools.find("perf"), "record", "-q", "-N", "-F", RATE.to_s, "-o", file, "-p", pids.join(",")]
      beside(command, "perf", ->(pid) { records?(pid) }, cpu, &block)
      text, status = Open3.capture2(Tools.find("perf"), "report", "-i", file, *Samples::REPORT, err: File::NULL)
      raise Failed, "perf cannot read what it has recorded" unless status.success?

      text
    end

    # Counts while the block runs.
    # @param pids [Array<Integer>]
    # @return [String] what `strace -c` says, for SystemCalls
    def calls(pids, cpu: nil, &block)
      counts = File.join(TMP, "profile.strace")
      command = [Tools.find("strace"), "-c", "-f", "-o", counts, *pids.flat_map { |pid| ["-p", pid.to_s] }]
      beside(command, "strace", ->(pid) { pids.all? { |traced| traces?(pid, traced) } }, cpu, &block)
      File.read(counts)
    end

    # Both end at TERM, and write what they have.
    def beside(command, name, ready, cpu)
      child = Child.new(command, name: "profile-#{name}", cpu: cpu)
      child.wait_ready(seconds: START) { ready.call(child.pid) }
      yield
    ensure
      child&.stop
    end

    # Whether perf has opened its events.
    def records?(pid)
      Dir.glob("/proc/#{pid}/fd/*").any? { |path| File.readlink(path).include?("perf_event") }
    rescue Errno::ENOENT
      false
    end

    # Whether strace has all threads of a process.
    def traces?(pid, traced)
      tasks = Dir.glob("/proc/#{traced}/task/*/status").map { |path| CpuMeter.read(path) }
      tasks.all? { |text| text[/^TracerPid:\s+(\d+)/, 1].to_i == pid }
    end

    def file = File.join(TMP, "profile.perf")
    private_class_method :beside, :records?, :traces?, :file
  end
end
