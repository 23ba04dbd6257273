# frozen_string_literal: true

# Apps that wait 100 ms, asleep or for an upstream, under a steady load of many connections. See README.md.
# Usage: ruby bench/sleepers.rb --help

require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/field"

module Bench
  # wrk on servers whose app waits, in interleaved rounds.
  class Sleepers
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
    ERRORS_MAX = 0.01 # share of failed requests above which a figure would be a lie
    Turn = Struct.new(:per_second, :p50, :p99, :cpu, :bytes, keyword_init: true)

    def initialize(ruby:, only:, rounds:, seconds:, pinned:)
      @field = Field.new(settings: SETTINGS, ruby: ruby, only: only, name: "sleepers")
      @wrk = Wrk.new(cpu: pinned ? 1 : nil)
      @rounds = rounds
      @seconds = seconds
      @pinned = pinned
      @failures = {}
      @turns = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      Files.raise_limit
      start_upstream
      LOADS.each { |load| run_load(load) }
    ensure
      @child&.stop
    end

    # @return [String] a table for each load
    def render
      LOADS.map do |load|
        table = Table.new(["", "requests/s", "of the ideal", "p50 ms", "p99 ms", "p99/p50", "CPU µs", "KB/request"])
        @turns.each { |(label, path), turns| table.add(label, *cells(load, turns)) if path == load.path }
        notes(load).each { |label, reason| table.note(label, reason) }
        "#{load.title}\n\n#{table}"
      end.join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      { versions: @versions, absent: @field.absent, loads: LOADS.map do |load|
        turns = @turns.select { |(_, path), _| path == load.path }
        load.to_h.merge(failures: notes(load) - @field.absent.to_a,
                        turns: turns.to_h { |(label, _), list| [label, list.map(&:to_h)] })
      end }
    end

    private

    # Servers start anew for each load, because memory that one has left would hide what the next takes.
    def run_load(load)
      @field.start(size: 6, env: { "UPSTREAM" => @upstream.to_s }, cpu: @pinned ? 0 : nil,
                   app: File.join(DIR, "apps", "sleepers.ru")) { |port| right?(port, load.path) }
      @versions = @field.versions
      @rounds.times do |round|
        warn "#{load.title}: round #{round + 1} of #{@rounds}"
        @field.turn(round).each { |entry| take_turn(entry, load) }
      end
    ensure
      @field.stop
    end

    # Memory is that of the first round, in which the server meets so many requests for the first time.
    def cells(load, turns)
      per_second, p50, p99, cpu = %i[per_second p50 p99 cpu].map { |field| Statistics.median(turns.map(&field)) }
      [per_second.round, "#{(per_second / load.ideal * 100).round(1)} %", (p50 / 1000.0).round, (p99 / 1000.0).round,
       (p99.to_f / p50).round(2), cpu.round(1), (turns.first.bytes / 1024.0).round(1)]
    end

    def notes(load)
      @failures.filter_map { |(label, path), reason| [label, reason] if path == load.path } + @field.absent.to_a
    end

    def start_upstream
      @upstream = Ports.free
      command = [Compiler.program("servers/upstream_epoll.c"), @upstream.to_s, (DELAY * 1000).to_i.to_s]
      @child = Child.new(command, name: "sleepers-upstream", cpu: @pinned ? 1 : nil, files: Files.raise_limit)
      @child.wait_ready(seconds: 5) { Probe.get(port: @upstream, path: "/ready", seconds: 1) }
    end

    def right?(port, path)
      answer = Probe.get(port: port, path: path, seconds: 2)
      answer&.status == 200 && answer.body == "/slept"
    end

    def take_turn(entry, load)
      return if @failures.key?([entry.label, load.path])

      @turns[[entry.label, load.path]] << measure(entry, load)
    rescue Failed => e
      @failures[[entry.label, load.path]] = e.message
      @turns.delete([entry.label, load.path])
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
      judge(entry, figures)
      Turn.new(per_second: figures.per_second, p50: figures.p50, p99: figures.p99,
               cpu: used.nanoseconds / 1000.0 / figures.requests, bytes: [peak - before, 0].max / load.connections)
    end

    def judge(entry, figures)
      raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?
      raise Failed, "stalled: no request was answered" if figures.requests.zero?
      return if figures.errors <= figures.requests * ERRORS_MAX

      kinds = %i[connect read write status timeout].select { |kind| figures[kind].positive? }
      raise Failed, "#{kinds.map { |kind| "#{figures[kind]} #{kind} errors" }.join(", ")} of #{figures.requests}"
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
