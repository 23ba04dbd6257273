# frozen_string_literal: true

require "json"

module Bench
  # The part of a script that `bin/bench profile` records: the process says where it begins and ends, and stops itself
  # there until it is let go on. So nothing of its start and of its end is recorded. In the end it says what Ruby and
  # the kernel have counted.
  module Window
    VARIABLE = "BENCH_WINDOW"
    BEGINS = "the window begins"
    ENDS = "the window ends"
    COUNTED = "counted in it: "

    module_function

    # Without the variable, the block is all that happens.
    # @return what the block returns
    def open
      return yield unless ENV.key?(VARIABLE)

      before = counts
      pause(BEGINS)
      yield.tap do
        pause(ENDS)
        after = counts
        $stdout.puts "#{COUNTED}#{JSON.generate(after.to_h { |name, count| [name, count - before.fetch(name)] })}"
      end
    end

    # So far; the processor time, the collector's part of it among that, in seconds.
    def counts
      gc = GC.stat
      { cpu: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), gc: gc.fetch(:time) / 1000.0,
        collections: gc.fetch(:count), objects: gc.fetch(:total_allocated_objects),
        page_faults: File.read("/proc/self/stat")[/\) (.+)/m, 1].split.fetch(7).to_i }
    end

    def pause(word)
      $stdout.puts word
      $stdout.flush
      Process.kill(:STOP, Process.pid)
    end
    private_class_method :counts, :pause
  end
end
