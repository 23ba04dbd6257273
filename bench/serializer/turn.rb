# frozen_string_literal: true

# One cell of a table, in a process of its own: `ruby turn.rb ROW TARGET TIMES`. Prints a line of JSON: CPU seconds
# for the operations, with the collector at work; with malloc_count.so loaded, what they allocate instead.
require "json"
require_relative "../support/window"
require_relative "calls"

module Bench
  # What runs, how many operations there are in one time, and how it is counted.
  module SerializerTurn
    WARM_UP = 100
    SHARE = 20 # counting takes fewer times, because nothing is collected meanwhile

    module_function

    # @return [Array(Proc, Integer)] takes a number of times; operations of one time
    def pick(row, target)
      require "abaca/outbox" if target.name == "Outbox"
      Calls.check(target)
      [Calls.loop_of(row, target), row.operations]
    end

    # @return [Hash]
    def seconds(run, times)
      run.call(WARM_UP)
      GC.start
      Window.open do
        start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
        run.call(times)
        { seconds: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start }
      end
    end

    # What two readings allocate without anything in between is taken off, when Ruby knows the way.
    # @param mallocs [#call]
    # @return [Hash]
    def counts(run, times, mallocs)
      run.call(WARM_UP)
      GC.start
      GC.disable
      idle = Array.new(2) { reading(mallocs) { nil } }.last
      reading(mallocs) { run.call(times / SHARE) }.to_h { |name, value| [name, value - idle[name]] }
    end

    def reading(mallocs)
      objects = GC.stat(:total_allocated_objects)
      calls = mallocs.call
      yield
      calls = mallocs.call - calls
      { objects: GC.stat(:total_allocated_objects) - objects, mallocs: calls }
    end

    # @return [#call, nil] the counter of malloc_count.c, when it is loaded
    def malloc_counter
      return unless ENV.key?("LD_PRELOAD")

      require "fiddle"
      Fiddle::Function.new(Fiddle.dlopen(nil)["malloc_calls"], [], -Fiddle::TYPE_LONG_LONG)
    end

    def main(row, name, times)
      run, operations = pick(Calls::ROWS.fetch(row), Calls::TARGETS.fetch(name))
      return { absent: true } unless run

      mallocs = malloc_counter
      return seconds(run, times).merge(operations: operations * times) unless mallocs

      counts(run, times, mallocs).merge(operations: operations * (times / SHARE))
    end
  end
end

puts JSON.generate(Bench::SerializerTurn.main(ARGV[0], ARGV[1], Integer(ARGV[2])))
