# frozen_string_literal: true

require "etc"

module Bench
  # What the processors did besides the benchmark while it measured, by the kernel's own counters: the time that a
  # hypervisor gave to other machines (steal), and the time that processes had that are no descendants of this one. Both
  # are shares of one processor, and as exact as the kernel's ticks.
  class Witness
    TICK = 1.0 / Etc.sysconf(Etc::SC_CLK_TCK) # seconds
    # `steal` and `others` are shares of a processor.
    Sight = Struct.new(:seconds, :steal, :others, keyword_init: true)

    # @return [Float] the load average of the last minute
    def self.load = File.read("/proc/loadavg").to_f

    def initialize
      @begun = Clock.now
      @before = counters
    end

    # @return [Sight] since the start
    def stop
      seconds = [Clock.now - @begun, TICK].max
      steal, busy, own = counters.zip(@before).map { |after, before| (after - before) * TICK / seconds }
      Sight.new(seconds: seconds.round(2), steal: share(steal), others: share(busy - own))
    end

    private

    def share(value) = [value, 0].max.round(3)

    # Ticks: stolen, of all processes and the kernel, and of this process with all that it has started.
    def counters
      user, nice, system, _idle, _wait, irq, softirq, steal = File.read("/proc/stat")[/^cpu (.+)$/, 1].split.map(&:to_i)
      [steal, user + nice + system + irq + softirq, CpuMeter.ticks(CpuMeter.family(Process.pid))]
    end
  end
end
