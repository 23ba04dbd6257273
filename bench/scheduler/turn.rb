# frozen_string_literal: true

# One row on one target, in a process of its own: ruby turn.rb TARGET ROW SCALE. Prints a line of JSON.
require "json"
require_relative "../support/window"
require_relative "targets"
require_relative "workloads"

target = Bench::Targets.pick([ARGV.fetch(0)]).first
row = ARGV.fetch(1)
scale = Float(ARGV.fetch(2))
target.features.each { |feature| require feature }
runner = if target.constant
           Bench::FiberRunner.new(Object.const_get(target.constant).method(:new))
         else
           Bench::ThreadRunner.new
         end

Thread.abort_on_exception = true
# The connections of the rows need more files than some systems give.
Process.setrlimit(:NOFILE, *([Process.getrlimit(:NOFILE).last] * 2))
GC.start
clocks = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
before = clocks.map { |clock| Process.clock_gettime(clock) }
work = nil
Bench::Window.open { runner.run { work = Bench::Workloads.public_send(row, runner, scale) } }
wall, cpu = clocks.zip(before).map { |clock, start| Process.clock_gettime(clock) - start }
work.check
puts JSON.generate(operations: work.operations, wall: wall, cpu: cpu)
$stdout.flush
# Work of a scheduler at the end of the process is not part of the row.
exit!(0)
