# frozen_string_literal: true

# What a fiber costs to start, to wait and to be woken: Abaca::Scheduler beside threads and its peers.
# Usage: ruby bench/scheduler.rb --help

require_relative "support/bench"
require_relative "scheduler/targets"
require_relative "scheduler/workloads"
require_relative "scheduler/contest"
require_relative "scheduler/report"

Bench.main("scheduler") do |main|
  main.quick("one round, a twentieth of the operations", rounds: 1, scale: 0.05, limit: 20)
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:scale, 1.0, "of the operations of a turn")
  main.option(:limit, 90, "seconds after which a turn is said to hang")
  main.option(:only, nil, "only these: #{Bench::Targets::ALL.map(&:name).join(" ")}")
  main.option(:rows, nil, "only these: #{Bench::Workloads::ROWS.map(&:name).join(" ")}")
  main.rubies
  main.unpinned("leave the processes to the kernel's scheduler")
  main.measure do |options|
    targets = Bench::Targets.pick(options[:only])
    rows = Bench::Workloads.pick(options[:rows])
    settings = options.slice(:rounds, :scale, :pinned, :limit)
    contests = options[:rubies].map do |ruby|
      contest = Bench::SchedulerContest.new(ruby: ruby, targets: targets, rows: rows, settings: settings)
      main.show(Bench::SchedulerReport.new(contest: contest, targets: targets, rows: rows))
    end
    { contests: contests }
  end
end
