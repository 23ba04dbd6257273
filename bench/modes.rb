# frozen_string_literal: true

# What requests cost and bear on fibers and on threads: hogs, crowds, leaving clients, TERM. See README.md.
# Usage: ruby bench/modes.rb --help

require "optparse"
require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/field"
require_relative "modes/row"
require_relative "modes/hog"
require_relative "modes/crowd"
require_relative "modes/hello"
require_relative "modes/leave"
require_relative "modes/rounds"
require_relative "modes/term"

module Bench
  module Modes
    ROWS = {
      "hog1" => ->(options) { Hog.new(burners: 1, **options) },
      "hog8" => ->(options) { Hog.new(burners: 8, **options) },
      "c4" => ->(options) { Rounds.new(connections: 4, **options) },
      "c64" => ->(options) { Rounds.new(connections: 64, **options) },
      "c256" => ->(options) { Rounds.new(connections: 256, **options) },
      "crowd" => ->(options) { Crowd.new(**options) },
      "excess" => ->(options) { Excess.new(**options) },
      "hello" => ->(options) { Hello.new(closing: false, **options) },
      "close" => ->(options) { Hello.new(closing: true, **options) },
      "wait64" => ->(options) { Waiting.new(threads: 64, **options) },
      "wait256" => ->(options) { Waiting.new(threads: 256, **options) },
      "leave" => ->(options) { Leave.new(**options) },
      "term" => ->(options) { Term.new(**options) }
    }.freeze
  end
end

options = { rounds: 3, only: nil, pinned: true, quick: false, nice: nil }
rubies = [Bench::Ruby.here]
rows = Bench::Modes::ROWS.keys
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench modes [options]"
  parser.on("--quick", "one round of each, shorter: for a look, not for a claim") do
    options.update(rounds: 1, quick: true)
  end
  parser.on("--rounds N", Integer, "interleaved rounds (3)") { |n| options[:rounds] = n }
  parser.on("--rows A,B", Array, "only these tables: #{rows.join(" ")}") { |names| rows = names }
  parser.on("--only A,B", Array, "only these servers: abaca puma falcon iodine itsi") { |names| options[:only] = names }
  parser.on("--ruby 3.1,3.4", Array, "the servers run on these Rubies (this one)") do |names|
    rubies = Bench::Ruby.pick(names)
  end
  parser.on("--nice N", Integer, "of servers and clients in C: below 0 where others use the machine (root)") do |n|
    options[:nice] = n
  end
  parser.on("--unpinned", "leave server and client to the kernel's scheduler") { options[:pinned] = false }
end.parse!

begin
  unknown = rows - Bench::Modes::ROWS.keys
  raise ArgumentError, "no such row: #{unknown.join(", ")}" unless unknown.empty?

  done = rows.product(rubies).map do |name, ruby|
    row = Bench::Modes::ROWS.fetch(name).call(options.merge(ruby: ruby))
    row.run
    puts "", row.render
    row.to_h
  end
  path = Bench::Results.write("modes", options.slice(:rounds, :quick, :pinned, :nice).merge(rows: done))
  puts "", "written to #{path}"
rescue Bench::Unavailable, Bench::Failed, ArgumentError => e
  abort "bench: #{e.message}"
end
