# frozen_string_literal: true

# The worst light request beside one and beside eight requests that compute. See README.md.
# Usage: ruby bench/hogs.rb --help

require_relative "support/bench"
require_relative "servers/row"
require_relative "modes/hog"

module Bench
  # The rows `hog1` and `hog8` of `modes` in one table: shorter, with a server for both, and without the price.
  class Hogs < Modes::Hog
    NUMBERS = [1, 8].freeze # of burners at once
    SECONDS = 0.5 # that one burner computes when it is alone
    # Of each number, in microseconds; `lights`, how many were in flight meanwhile.
    Turn = Struct.new(:worst, :p99, :p50, :lights, :lost, :burning, keyword_init: true)

    def initialize(seconds:, **options)
      @seconds = seconds
      super(burners: NUMBERS.last, quick: false, **options)
    end

    def name = "hogs"

    def title
      "#{LIGHTS} light clients beside #{NUMBERS.join(" and ")} requests that compute #{seconds} s each: their latency"
    end

    private

    attr_reader :seconds

    def settings
      threads = NUMBERS.last * 2
      [abaca("fiber"), abaca("thread #{threads}", mode: :thread, threads: [0, threads]),
       abaca("hybrid #{threads}, promoted", mode: :hybrid, threads: [0, threads]),
       ["puma", { threads: 5 }], ["puma", { threads: 64 }], ["falcon", {}], ["iodine", { threads: 4 }],
       ["itsi", { threads: 64 }], ["itsi", { fibers: true }]]
    end

    def compared_figures = []

    def columns
      NUMBERS.flat_map { |number| ["#{number}: worst ms", "±", "p99 ms", "p50 ms", "requests"] } + ["lost"]
    end

    def cells(rounds)
      [*NUMBERS.flat_map { |number| figures_of(rounds.map { |turns| turns.fetch(number) }) },
       rounds.sum { |turns| turns.values.sum(&:lost) }]
    end

    def figures_of(turns)
      worst, p99, p50 = %i[worst p99 p50].map { |field| milliseconds(median(turns, field)) }
      [worst, milliseconds(Statistics.spread(turns.map(&:worst))&./(2)), p99, p50, median(turns, :lights).round]
    end

    def measure(entry)
      teach(entry)
      NUMBERS.to_h { |number| [number, beside(entry, number)] }
    end

    def beside(entry, number)
      found = steady(entry, burners: number, connections: LIGHTS, health: HEALTH)
      raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?
      raise Failed, "#{found[:burned]} of #{number} burners were answered" unless found[:burned] == number

      Turn.new(worst: worst(found, :light), p99: found[:light_p99], p50: found[:light_p50], lights: found[:light],
               lost: found[:lost] + found[:unanswered], burning: found[:burning])
    end
  end
end

Bench.main("hogs") do |main|
  main.quick("one round of 0.2 s each", rounds: 1, seconds: 0.2)
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:seconds, Bench::Hogs::SECONDS, "that one burner computes when it is alone")
  main.option(:only, nil, "only these servers: abaca puma falcon iodine itsi")
  main.option(:nice, nil, "of servers and clients in C: below 0 where others use the machine (root)", type: Integer)
  main.ruby
  main.against
  main.unpinned
  main.measure { |options| main.show(Bench::Hogs.new(**options)) }
end
