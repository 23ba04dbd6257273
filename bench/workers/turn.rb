# frozen_string_literal: true

# One kind and one row, in a process of its own: ruby turn.rb KIND WORKERS REQUESTS. Prints a line of JSON.
require "json"
require_relative "kinds"

kind = ARGV.fetch(0)
workers, requests = ARGV.last(2).map { |word| Integer(word) }
require "abaca/scheduler" if kind == "automatic"
Thread.abort_on_exception = true
Process.setrlimit(:NOFILE, *([Process.getrlimit(:NOFILE).last] * 2))
GC.start
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
right = Bench::Workers.public_send(kind, Array.new(workers) { Bench::Workers::Link.new }, requests)
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
raise "#{right} of #{workers * requests} answers were right" unless right == workers * requests

used = Process.times
puts JSON.generate(seconds: seconds, cpu: used.utime + used.stime + used.cutime + used.cstime)
