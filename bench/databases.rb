# frozen_string_literal: true

# Requests that need a database, on 600 connections, with a pool of five: what fails, and what waits? See README.md.
# Usage: ruby bench/databases.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "databases/stores"

module Bench
  # A field for each driver and each library that keeps its connections, abaca beside puma with as many threads.
  class Databases
    APP = File.join(DIR, "apps", "databases.ru")
    SETTINGS = [["abaca", {}], ["puma", { threads: 5 }]].freeze
    LIBRARIES = { "ActiveRecord" => "activerecord", "Sequel" => "sequel", "ConnectionPool" => "connection_pool" }.freeze
    PAGES = %w[/hold /page].freeze
    Turn = Struct.new(:answers, :failed, :whole, :p50, :p99, :worst, :cpu, :peak, keyword_init: true) do
      def per_second = answers * 1e6 / whole
    end

    def self.drivers = Stores::ALL.flat_map { |store| store::DRIVERS }

    def initialize(drivers:, libraries:, connections:, rounds:, seconds:)
      @drivers = drivers
      @libraries = LIBRARIES.slice(*libraries)
      @connections = connections
      @rounds = rounds
      @seconds = seconds
      @fields = {}
      @absent = {}
    end

    def run
      @env = { "GEM_PATH" => @libraries.values.map { |gem| home_of(gem) }.join(":") }
      Stores::ALL.each { |store| measure_store(store, store::DRIVERS & @drivers) }
    end

    # Failures are totals of all rounds, because one in any of them matters; the rest are medians.
    #
    # @return [String] a table for each pair
    def render
      tables = @fields.map do |(driver, library), field|
        columns = PAGES.flat_map { |page| ["#{page}: 1/s", "failed", "p50 ms", "p99 ms", "worst ms", "CPU µs"] }
        "#{driver}, #{library}\n\n#{field.render(*columns, "peak MB") { |turns| cells(turns) }}"
      end
      [*tables, *@absent.map { |driver, reason| "#{driver}: #{reason}" }].join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      parts = @fields.to_h { |(driver, library), field| ["#{driver}, #{library}", field.to_h] }
      { pool: SETTINGS.last.last[:threads], versions: @versions, absent: @absent, parts: parts }
    end

    private

    # @return [String] the folder of a gem, which is installed for these benchmarks
    def home_of(gem)
      gems = Gems.new(gem)
      gems.install
      (@versions ||= {})[gem] = gems.version
      gems.env["GEM_HOME"]
    end

    def measure_store(kind, drivers)
      return if drivers.empty?

      env = { "GEM_PATH" => [@env["GEM_PATH"], *drivers.map { |driver| home_of(driver) }].join(":") }
      store = kind.new(env)
      store.start
      drivers.product(@libraries.keys) { |driver, library| measure_pair(driver, library, store.place, env) }
    rescue Unavailable, Failed => e
      drivers.each { |driver| @absent[driver] = e.message }
    ensure
      store&.stop
    end

    # Each turn has a server of its own, so that none has what another has left unanswered.
    def measure_pair(driver, library, place, env)
      field = @fields[[driver, library]] = Field.new(settings: SETTINGS, name: "databases")
      env = { **env, "DRIVER" => driver, "LIBRARY" => library, "PLACE" => JSON.generate(place) }
      right = ->(port) { Probe.get(port: port, path: "/page")&.body == "done\n" }
      field.rounds(@rounds, "#{driver}, #{library}") do |entry|
        field.alone(entry, app: APP, env: env, right: right) { PAGES.to_h { |page| [page, measure(entry, page)] } }
      end
    end

    def measure(entry, page)
      meter = CpuMeter.new(entry.child.pid).start
      found = Client.figures("rounds", entry.port.to_s, @connections.to_s, @seconds.to_s, page)
      used = meter.stop
      Turn.new(**found.slice(*Turn.members), cpu: used.nanoseconds / 1000.0 / [found[:answers], 1].max,
                                             peak: entry.child.peak_resident)
    end

    def cells(rounds)
      peak = rounds.map { |round| round.values.map(&:peak).max }.max
      [*PAGES.flat_map { |page| figures(rounds.map { |round| round[page] }) }, peak.fdiv(1 << 20).round]
    end

    def figures(turns)
      times = %i[p50 p99 worst].map { |field| (Statistics.median(turns.map(&field)) / 1000.0).round }
      [Statistics.median(turns.map(&:per_second)).round, turns.sum(&:failed), *times,
       Statistics.median(turns.map(&:cpu)).round]
    end
  end
end

Bench.main("databases") do |main|
  main.quick("one round of a second", rounds: 1, seconds: 1)
  main.option(:drivers, Bench::Databases.drivers, "some of these")
  main.option(:libraries, Bench::Databases::LIBRARIES.keys, "some of these")
  main.option(:connections, 600, "that ask again as soon as they are answered")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:seconds, 5, "for each page; those who wait at the end are waited for")
  main.measure { |options| main.show(Bench::Databases.new(**options)) }
end
