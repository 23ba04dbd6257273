# frozen_string_literal: true

# Pages of 10 to 50 ms that compute, alone and beside light requests; beside puma and falcon. See README.md.
# Usage: ruby bench/pages.rb --help

require_relative "support/bench"
require_relative "support/server_meter"
require_relative "servers/row"
require_relative "pages/load"
require_relative "pages/rails"
require_relative "pages/cells"
require_relative "pages/tables"
require_relative "pages/contest"

module Bench
  module Pages
    APPS = { "rails" => Rails, "synthetic" => Synthetic }.freeze
    PARTS = %w[alone mixed hogs].freeze
    HOGS = { 1 => 2000, 8 => 150 }.freeze # burners => milliseconds

    # @return [Array<Mix, Hog>]
    def self.cells(parts:, connections:, milliseconds:)
      mixes = milliseconds.product(connections, parts & %w[alone mixed]).map do |each, number, part|
        Mix.new(milliseconds: each, connections: number, mixed: part == "mixed")
      end
      mixes + (parts.include?("hogs") ? HOGS.map { |number, each| Hog.new(burners: number, milliseconds: each) } : [])
    end

    # @raise [ArgumentError] for a word that is not known
    def self.check(words, known, option)
      unknown = words - known
      raise ArgumentError, "--#{option} #{unknown.join(",")}: expected #{known.join(", ")}" unless unknown.empty?
    end
  end
end

Bench.main("pages") do |main|
  main.quick("one round of a second, on 10 connections", rounds: 1, seconds: 1, connections: [10])
  main.option(:app, "rails", "or synthetic: without a framework, for daily work")
  main.option(:rows, Bench::Pages::Contest::ROWS.keys, "only these servers")
  main.option(:parts, Bench::Pages::PARTS, "pages alone, pages mixed with light requests, light requests beside hogs")
  main.option(:ms, [20], "milliseconds of a page")
  main.option(:connections, [2, 10, 50, 300], "that ask for pages, or half of them for something light (25 at most)")
  main.option(:workers, [1], "processes that serve")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:seconds, 3, "of a window")
  main.option(:baseline, "abaca", "the row that the others are compared with")
  main.option(:nice, nil, "of servers and clients in C: below 0 where others use the machine (root)", type: Integer)
  main.ruby
  main.against
  main.unpinned
  main.measure do |options|
    Bench::Pages.check([options[:app]], Bench::Pages::APPS.keys, "app")
    Bench::Pages.check([*options[:rows], options[:baseline]], Bench::Pages::Contest::ROWS.keys, "rows")
    Bench::Pages.check(options[:parts], Bench::Pages::PARTS, "parts")
    milliseconds, connections, workers = options.values_at(:ms, :connections, :workers)
                                                .map { |words| words.map { |word| Integer(word) } }
    app = Bench::Pages::APPS.fetch(options[:app]).new(ruby: options[:ruby])
    cells = Bench::Pages.cells(parts: options[:parts], connections: connections, milliseconds: milliseconds)
    settings = options.except(:app, :parts, :ms, :connections, :workers)
    done = workers.map do |number|
      main.show(Bench::Pages::Contest.new(app: app, cells: cells, workers: number, **settings))
    end
    { look: app.synthetic?, rows: done }
  end
end
