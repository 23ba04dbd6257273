# frozen_string_literal: true

# Requests on fibers and on threads: hogs, crowds, disconnects, TERM. See README.md. Usage: ruby bench/modes.rb --help

require_relative "support/bench"
require_relative "servers/row"
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

Bench.main("modes") do |main|
  main.quick("one round of each, shorter", rounds: 1)
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:rows, Bench::Modes::ROWS.keys, "only these tables")
  main.option(:only, nil, "only these servers: abaca puma falcon iodine itsi")
  main.option(:nice, nil, "of servers and clients in C: below 0 where others use the machine (root)", type: Integer)
  main.rubies("the servers run on these Rubies (this one)")
  main.against
  main.unpinned
  main.measure do |options|
    unknown = options[:rows] - Bench::Modes::ROWS.keys
    raise ArgumentError, "no such row: #{unknown.join(", ")}" unless unknown.empty?

    settings = options.except(:rows, :rubies).merge(quick: main.quick?)
    done = options[:rows].product(options[:rubies]).map do |name, ruby|
      main.show(Bench::Modes::ROWS.fetch(name).call({ ruby: ruby, **settings }))
    end
    { rows: done }
  end
end
