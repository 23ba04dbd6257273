# frozen_string_literal: true

# Workers: how long a boot takes, what four of them cost, what two serve, and how evenly. See README.md. Usage: ruby
# bench/cluster.rb --help

require_relative "support/bench"
require_relative "servers/row"
require_relative "cluster/balance"
require_relative "cluster/boot"
require_relative "cluster/crowd"
require_relative "cluster/memory"
require_relative "cluster/throughput"

module Bench
  module Cluster
    ROWS = { "boot" => Boot, "memory" => Memory, "burn" => Burn, "hello" => Hello, "balance" => Balance,
             "crowd" => Crowd }.freeze
  end
end

Bench.main("cluster") do |main|
  main.quick("one round of each, shorter", rounds: 1)
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:rows, Bench::Cluster::ROWS.keys, "only these tables")
  main.option(:only, nil, "only these servers: abaca puma")
  main.option(:nice, nil, "of servers and clients: below 0 where others use the machine (root)", type: Integer)
  main.ruby
  main.measure do |options|
    unknown = options[:rows] - Bench::Cluster::ROWS.keys
    raise ArgumentError, "no such row: #{unknown.join(", ")}" unless unknown.empty?

    settings = { pinned: false, quick: main.quick?, **options.except(:rows) }
    { rows: options[:rows].map { |name| main.show(Bench::Cluster::ROWS.fetch(name).new(**settings)) } }
  end
end
