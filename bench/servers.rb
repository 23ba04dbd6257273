# frozen_string_literal: true

# CPU time per request of Abaca, its peers and the floor, in interleaved rounds: see README.md.
# Usage: ruby bench/servers.rb --help

require "optparse"
require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/load"
require_relative "servers/contest"
require_relative "servers/report"

options = { rounds: 5, seconds: 2, pinned: true, only: nil, loads: nil }
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench servers [options]"
  parser.on("--quick", "2 rounds of 1 s: for a look, not for a claim") { options.update(rounds: 2, seconds: 1) }
  parser.on("--rounds N", Integer, "interleaved rounds (5)") { |n| options[:rounds] = n }
  parser.on("--seconds S", Integer, "seconds of each turn (2)") { |s| options[:seconds] = s }
  parser.on("--only A,B", Array, "only these servers") { |names| options[:only] = names }
  parser.on("--loads A,B", Array, "only these loads: #{Bench::Loads::ALL.map(&:name).join(" ")}") { |names| options[:loads] = names }
  parser.on("--unpinned", "leave server and client to the kernel's scheduler") { options[:pinned] = false }
end.parse!

begin
  servers = Bench::Catalog.pick(options[:only])
  loads = Bench::Loads.pick(options[:loads])
  settings = options.slice(:rounds, :seconds, :pinned)
  contest = Bench::Contest.new(servers: servers, loads: loads, **settings)
  contest.run
  report = Bench::Report.new(contest: contest, servers: servers, loads: loads)
  path = Bench::Results.write("servers", settings.merge(report.to_h))
  puts "", report.render, "", "#{Bench::Machine.facts.values_at(:cpu, :cpus, :kernel).join(", ")}; #{RUBY_DESCRIPTION}",
       "written to #{path}"
rescue Bench::Unavailable, ArgumentError => e
  abort "bench: #{e.message}"
end
