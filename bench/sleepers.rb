# frozen_string_literal: true

# Apps that wait 100 ms, asleep or for an upstream, under a steady load of many connections. See README.md.
# Usage: ruby bench/sleepers.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "servers/upstream"

module Bench
  # wrk on servers whose app waits, in interleaved rounds.
  class Sleepers
    APP = File.join(DIR, "apps", "sleepers.ru")
    DELAY = 0.1 # seconds that every request waits
    SETTINGS = [["abaca", {}], ["itsi", { fibers: true }], ["falcon", {}], ["puma", { threads: 5 }],
                ["puma", { threads: 256 }]].freeze
    Load = Struct.new(:path, :connections, :title, keyword_init: true) do
      def ideal = connections / DELAY
    end
    LOADS = [
      Load.new(path: "/sleep", connections: 1000, title: "sleep 0.1, 1,000 connections"),
      Load.new(path: "/upstream", connections: 500, title: "Net::HTTP.get to 100 ms, 500 connections")
    ].freeze
    Turn = Struct.new(:per_second, :p50, :p99, :cpu, :bytes, keyword_init: true)

    # Servers start anew for each load, because memory that one has left would hide what the next takes.
    def initialize(pinned:, rounds:, seconds:, **options)
      @fields = LOADS.to_h do |load|
        [load, Field.new(settings: SETTINGS, name: "sleepers", cpu: pinned ? 0 : nil, **options)]
      end
      @wrk = Wrk.new(cpu: pinned ? 1 : nil)
      @rounds = rounds
      @seconds = seconds
    end

    def run
      upstream = Upstream.start((DELAY * 1000).to_i, cpu: @wrk.cpu)
      @fields.each do |load, field|
        right = ->(port) { Probe.get(port: port, path: load.path)&.body == "/slept" }
        field.start(size: 6, env: upstream, app: APP, right: right)
        field.rounds(@rounds, load.title) { |entry| measure(entry, load) }
      ensure
        field.stop
      end
    end

    # @return [String] a table for each load
    def render
      @fields.map do |load, field|
        columns = ["requests/s", "of the ideal", "p50 ms", "p99 ms", "p99/p50", "CPU µs", "KB/request"]
        "#{load.title}\n\n#{field.render(*columns) { |turns| cells(load, turns) }}"
      end.join("\n")
    end

    # @return [Hash] for the results file
    def to_h = { loads: @fields.map { |load, field| { **load.to_h, **field.to_h } } }

    private

    # Memory is that of the first round, in which the server meets so many requests for the first time.
    def cells(load, turns)
      per_second, p50, p99, cpu = %i[per_second p50 p99 cpu].map { |field| Statistics.median(turns.map(&field)) }
      [per_second.round, "#{(per_second / load.ideal * 100).round(1)} %", (p50 / 1000.0).round, (p99 / 1000.0).round,
       (p99.to_f / p50).round(2), cpu.round(1), (turns.first.bytes / 1024.0).round(1)]
    end

    def measure(entry, load)
      before = entry.child.resident
      meter = CpuMeter.new(entry.child.pid).start
      figures = peak = nil
      client = Thread.new do
        figures = @wrk.run(port: entry.port, connections: load.connections, seconds: @seconds, path: load.path)
      end
      client.report_on_exception = false
      peak = [peak.to_i, entry.child.resident].max until client.join(0.2)
      used = meter.stop
      Turn.new(per_second: figures.per_second, p50: figures.p50, p99: figures.p99,
               cpu: used.nanoseconds / 1000.0 / figures.requests, bytes: [peak - before, 0].max / load.connections)
    end
  end
end

Bench.main("sleepers") do |main|
  main.quick("one round of 2 s", rounds: 1, seconds: 2)
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:seconds, 10, "seconds of each turn")
  main.option(:only, nil, "only these servers")
  main.ruby
  main.unpinned("leave server, upstream and client to the kernel's scheduler")
  main.measure { |options| main.show(Bench::Sleepers.new(**options), "Ruby #{options[:ruby].version}") }
end
