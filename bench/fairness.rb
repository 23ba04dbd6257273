# frozen_string_literal: true

# Who waits while others are served? Order and tail on busy connections, and beside a request that computes.
# Usage: ruby bench/fairness.rb --help

require "optparse"
require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/field"
require_relative "modes/row"
require_relative "modes/hog"
require_relative "fairness/rounds"

module Bench
  module Fairness
    ROWS = {
      "c4" => ->(options) { Rounds.new(connections: 4, **options) },
      "c64" => ->(options) { Rounds.new(connections: 64, **options) },
      "c256" => ->(options) { Rounds.new(connections: 256, **options) },
      "hog1" => ->(options) { Modes::Hog.new(burners: 1, **options) }
    }.freeze
  end
end

options = { rounds: 3, only: nil, pinned: true, quick: false, nice: nil }
rubies = [Bench::Ruby.here]
rows = Bench::Fairness::ROWS.keys
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench fairness [options]"
  parser.on("--quick", "one round of each, shorter: for a look, not for a claim") do
    options.update(rounds: 1, quick: true)
  end
  parser.on("--rounds N", Integer, "interleaved rounds (3)") { |n| options[:rounds] = n }
  parser.on("--rows A,B", Array, "only these tables: #{rows.join(" ")}") { |names| rows = names }
  parser.on("--only A,B", Array, "only these servers: abaca puma") { |names| options[:only] = names }
  parser.on("--ruby 3.1,3.4", Array, "the servers run on these Rubies (this one)") do |names|
    rubies = Bench::Ruby.pick(names)
  end
  parser.on("--unpinned", "leave server and client to the kernel's scheduler") { options[:pinned] = false }
end.parse!

begin
  unknown = rows - Bench::Fairness::ROWS.keys
  raise ArgumentError, "no such row: #{unknown.join(", ")}" unless unknown.empty?

  done = rows.product(rubies).map do |name, ruby|
    row = Bench::Fairness::ROWS.fetch(name).call(options.merge(ruby: ruby))
    row.run
    puts "", row.render
    row.to_h
  end
  path = Bench::Results.write("fairness", options.slice(:rounds, :quick, :pinned).merge(rows: done))
  puts "", "written to #{path}"
rescue Bench::Unavailable, Bench::Failed, ArgumentError => e
  abort "bench: #{e.message}"
end
