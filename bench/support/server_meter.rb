# frozen_string_literal: true

module Bench
  # What a server uses between two moments: processor time, voluntary switches (a thread that waits, such as for Ruby's
  # lock), lines of its log; and its memory in the end. All of its processes and threads count. Switches of threads that
  # have ended meanwhile are lost.
  class ServerMeter
    # `cpu` in microseconds, `memory` (PSS) in bytes.
    Reading = Struct.new(:cpu, :switches, :lines, :memory, keyword_init: true)

    # @param child [Child]
    def initialize(child)
      @child = child
      @cpu = CpuMeter.new(child.pid)
    end

    def start
      @log = File.size(@child.log)
      @switches = switches
      @cpu.start
      self
    end

    # @return [Reading]
    def stop
      cpu = @cpu.stop.nanoseconds / 1000
      more = switches.sum { |thread, count| count - @switches.fetch(thread, 0) }
      lines = File.binread(@child.log, nil, @log).count("\n")
      Reading.new(cpu: cpu, switches: more, lines: lines, memory: @child.proportional)
    end

    private

    def switches
      paths = CpuMeter.family(@child.pid).flat_map { |pid| Dir.glob("/proc/#{pid}/task/*/status") }
      paths.to_h { |path| [path, CpuMeter.read(path)[/^voluntary_ctxt_switches:\s+(\d+)/, 1].to_i] }
    end
  end
end
