# frozen_string_literal: true

# CPU time per request of Abaca, its peers and the floor, in interleaved rounds: see README.md.
# Usage: ruby bench/servers.rb --help

require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/load"
require_relative "servers/contest"
require_relative "servers/report"

Bench.main("servers") do |main|
  main.quick("2 rounds of 1 s", rounds: 2, seconds: 1)
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:seconds, 2, "seconds of each turn")
  main.option(:only, nil, "only these servers")
  main.option(:loads, nil, "only these loads: #{Bench::Loads::ALL.map(&:name).join(" ")}")
  main.ruby
  main.against
  main.unpinned
  main.measure do |options|
    servers = Bench::Catalog.pick(options[:only], **options.slice(:ruby, :against))
    loads = Bench::Loads.pick(options[:loads])
    contest = Bench::Contest.new(servers: servers, loads: loads, **options.slice(:rounds, :seconds, :pinned))
    main.show(Bench::Report.new(contest: contest, servers: servers, loads: loads, against: options[:against]))
  end
end
