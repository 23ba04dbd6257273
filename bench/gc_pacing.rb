# frozen_string_literal: true

# What parked fibers cost a request in garbage collection, with and without pacing: see README.md.
# Usage: ruby bench/gc_pacing.rb --help

require "json"
require_relative "support/bench"

module Bench
  # Each setting in interleaved rounds, every turn in a process of its own.
  class GcPacing
    MAIN = File.join(DIR, "gc_pacing", "turn.rb")
    LIMIT = 300 # seconds for one turn

    def initialize(fibers:, units:, rounds:, ruby:)
      @ruby = ruby
      @cells = fibers.product([false, true])
      @units = units
      @rounds = rounds
      @figures = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      @folder = @ruby.abaca
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        (round.even? ? @cells : @cells.reverse).each { |cell| @figures[cell] << turn(*cell) }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["parked fibers", "pacing", "CPU µs/unit", "GC µs/unit", "× of none", "collections", "RSS MB"])
      @cells.each do |fibers, pacing|
        cell = [fibers, pacing]
        table.add(fibers, pacing ? "on" : "off", median(cell, :cpu_us).round(2), median(cell, :gc_us).round(2),
                  ratio(*cell).cell, median(cell, :collections).round, median(cell, :rss_mb).round)
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h
      { units: @units, rounds: @rounds,
        rows: @cells.map do |fibers, pacing|
          { fibers:, pacing:, gc_ratio_to_none: ratio(fibers, pacing).value&.round(3),
            samples: @figures[[fibers, pacing]] }
        end }
    end

    private

    def median(cell, name) = Statistics.median(@figures[cell].map { |figures| figures.fetch(name) })

    # Relative to no parked fibers and Ruby's own heap.
    def ratio(fibers, pacing)
      cells = [[fibers, pacing], [@cells.first.first, false]]
      Ratio.new(*cells.map { |cell| @figures[cell].map { |figures| figures.fetch(:gc_us) } })
    end

    def turn(fibers, pacing)
      Bench.account.turn("#{fibers} parked", pacing ? "with pacing" : "without", ours: true) { probe(fibers, pacing) }
    end

    def probe(fibers, pacing)
      Turn.take(@ruby.command("-I#{@folder}", MAIN, JSON.generate({ fibers:, pacing:, units: @units })),
                name: "gc-pacing", limit: LIMIT)
    end
  end
end

Bench.main("gc_pacing") do |main|
  main.quick("one round of 3,000 units, 0 and 1,000 fibers", rounds: 1, units: 3000, fibers: [0, 1000])
  main.option(:fibers, [0, 1000, 10_000], "parked fibers; the first is what others are compared to")
  main.option(:units, 60_000, "units of each probe")
  main.option(:rounds, 5, "probes of each setting")
  main.ruby
  main.measure do |options|
    main.show(Bench::GcPacing.new(**options, fibers: options[:fibers].map { |count| Integer(count) }))
  end
end
