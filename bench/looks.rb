# frozen_string_literal: true

# Looks at a running server: what they cost, what its requests notice, and how soon there is an answer. See README.md.
# Usage: ruby bench/looks.rb --help

require "etc"
require "open3"
require_relative "support/bench"
require_relative "looks/watched"
require_relative "looks/cost"
require_relative "looks/beside"
require_relative "looks/answers"
require_relative "looks/scrape"

module Bench
  class Looks
    ROWS = { "cost" => Cost, "beside" => Beside, "answers" => Answers, "scrape" => Scrape }.freeze
  end
end

Bench.main("looks") do |main|
  main.quick("one round of each, shorter", rounds: 1)
  main.option(:rounds, 5, "rounds of each")
  main.option(:rows, Bench::Looks::ROWS.keys, "only these tables")
  main.option(:in_flight, 5000, "requests in flight, for the first two")
  main.measure do |options|
    unknown = options[:rows] - Bench::Looks::ROWS.keys
    raise ArgumentError, "no such row: #{unknown.join(", ")}" unless unknown.empty?

    settings = { quick: main.quick?, **options.except(:rows) }
    { rows: options[:rows].map { |name| main.show(Bench::Looks::ROWS.fetch(name).new(**settings)) } }
  end
end
