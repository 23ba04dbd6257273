# frozen_string_literal: true

# All scenarios one after another, with a limit of time for each: see README.md. Usage: ruby bench/all.rb --help

require_relative "support/bench"
require_relative "all/preparation"
require_relative "all/scenarios"
require_relative "all/suite"

good = false
Bench.main("all") do |main|
  main.quick("little of everything, in five minutes; also of a tree with changes")
  main.option(:only, nil, "only these scenarios: #{Bench::Scenarios::ALL.map(&:name).join(" ")}")
  main.ruby
  main.measure do |options|
    dirty = Bench::Machine.dirty?
    if dirty && !main.quick?
      raise ArgumentError, "git does not say what this tree is: take a look with --quick" unless Bench::Machine.commit

      raise ArgumentError, "the tree has changes: commit them, or take a look with --quick"
    end
    warn "bench: the tree has changes: these figures are for a look" if dirty
    scenarios = Bench.pick(Bench::Scenarios::ALL, options[:only], "scenario")
    missing = Bench::Preparation.new(ruby: options[:ruby]).run
    limit = main.quick? ? Bench::Scenarios::QUICK : Bench::Scenarios::FULL
    name = options[:ruby].name unless options[:ruby].here?
    suite = Bench::Suite.new(scenarios: scenarios, quick: main.quick?, ruby: name, limit: limit)
    data = main.show(suite)
    good = suite.good?
    { not_installed: missing, left_out: Bench::Scenarios::LEFT_OUT, **data }
  end
end
exit(good)
