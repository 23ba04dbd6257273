# frozen_string_literal: true

# What a fiber costs to start, to wait and to be woken: Abaca::Scheduler beside threads and its peers.
# Usage: ruby bench/scheduler.rb --help

require "optparse"
require_relative "support/bench"
require_relative "scheduler/targets"
require_relative "scheduler/workloads"
require_relative "scheduler/contest"
require_relative "scheduler/report"

options = { rounds: 5, scale: 1.0, pinned: true, limit: 90, only: nil, rows: nil, rubies: nil }
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench scheduler [options]"
  parser.on("--quick", "one round, a twentieth of the operations: for a look, not for a claim") do
    options.update(rounds: 1, scale: 0.05, limit: 20)
  end
  parser.on("--rounds N", Integer, "interleaved rounds (5)") { |n| options[:rounds] = n }
  parser.on("--limit S", Integer, "seconds after which a turn is said to hang (90)") { |s| options[:limit] = s }
  parser.on("--only A,B", Array, "only these: #{Bench::Targets::ALL.map(&:name).join(" ")}") do |names|
    options[:only] = names
  end
  parser.on("--rows A,B", Array, "only these: #{Bench::Workloads::ROWS.map(&:name).join(" ")}") do |names|
    options[:rows] = names
  end
  parser.on("--ruby 3.1,3.4", Array, "these Rubies, bin/matrix's among them (the one that runs this)") do |names|
    options[:rubies] = names
  end
  parser.on("--unpinned", "leave the processes to the kernel's scheduler") { options[:pinned] = false }
end.parse!

begin
  targets = Bench::Targets.pick(options[:only])
  rows = Bench::Workloads.pick(options[:rows])
  settings = options.slice(:rounds, :scale, :pinned, :limit)
  reports = Bench::Ruby.pick(options[:rubies] || [Bench::Ruby.here.name]).map do |ruby|
    contest = Bench::SchedulerContest.new(ruby: ruby, targets: targets, rows: rows, settings: settings)
    contest.run
    report = Bench::SchedulerReport.new(contest: contest, targets: targets, rows: rows)
    puts "", report.render
    report
  end
  path = Bench::Results.write("scheduler", settings.merge(contests: reports.map(&:to_h)))
  puts "", Bench::Machine.facts.values_at(:cpu, :cpus, :kernel).join(", "), "written to #{path}"
rescue Bench::Unavailable, Bench::Failed, ArgumentError => e
  abort "bench: #{e.message}"
end
