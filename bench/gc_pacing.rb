# frozen_string_literal: true

# What parked fibers cost a request in garbage collection, with and without pacing: see README.md.
# Usage: ruby bench/gc_pacing.rb --help

require "json"
require "rbconfig"
require_relative "support/bench"

module Bench
  # Each setting in interleaved rounds, every turn in a process of its own.
  class GcPacing
    MAIN = File.join(DIR, "gc_pacing", "turn.rb")
    LIMIT = 300 # seconds for one turn

    def initialize(fibers:, units:, rounds:)
      @cells = fibers.product([false, true])
      @units = units
      @rounds = rounds
      @figures = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        (round.even? ? @cells : @cells.reverse).each { |cell| @figures[cell] << probe(*cell) }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["parked fibers", "pacing", "CPU µs/unit", "GC µs/unit", "× of none", "collections", "RSS MB"])
      @cells.each do |fibers, pacing|
        cell = [fibers, pacing]
        table.add(fibers, pacing ? "on" : "off", median(cell, :cpu_us).round(2), median(cell, :gc_us).round(2),
                  ratio(*cell).round(2), median(cell, :collections).round, median(cell, :rss_mb).round)
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h
      { units: @units, rounds: @rounds,
        rows: @cells.map do |fibers, pacing|
          { fibers:, pacing:, gc_ratio_to_none: ratio(fibers, pacing).round(3), samples: @figures[[fibers, pacing]] }
        end }
    end

    private

    def median(cell, name) = Statistics.median(@figures[cell].map { |figures| figures.fetch(name) })

    # Relative to no parked fibers and Ruby's own heap.
    def ratio(fibers, pacing) = median([fibers, pacing], :gc_us) / median([@cells.first.first, false], :gc_us)

    def probe(fibers, pacing)
      Turn.take([RbConfig.ruby, "-I", File.join(ROOT, "lib"), MAIN, JSON.generate({ fibers:, pacing:, units: @units })],
                name: "gc-pacing", limit: LIMIT)
    end
  end
end

Bench.main("gc_pacing") do |main|
  main.option(:fibers, [0, 1000, 10_000], "parked fibers; the first is what others are compared to")
  main.option(:units, 60_000, "units of each probe")
  main.option(:rounds, 5, "probes of each setting")
  main.measure do |options|
    main.show(Bench::GcPacing.new(**options, fibers: options[:fibers].map { |count| Integer(count) }))
  end
end
