# frozen_string_literal: true

# An app that waits 100 ms for an upstream, with 1,000 requests at once on one process: see README.md.
# Usage: ruby bench/waiting.rb --help

require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/field"

module Bench
  # Bursts of requests against a waiting app, each answer checked for its own number.
  class Waiting
    APP = File.join(DIR, "apps", "waiting.ru")
    DELAY = 100 # ms that the upstream takes
    DEADLINE = 120 # seconds for one burst
    SETTINGS = [["abaca", {}], ["puma", { threads: 5 }], ["puma", { threads: 64 }]].freeze
    Burst = Struct.new(:right, :wrong, :dropped, :unanswered, :wall, :p50, :p99, :slowest, :refused, :refused_slowest,
                       :cpu, keyword_init: true)

    def initialize(requests:, rounds:, against:)
      @field = Field.new(settings: SETTINGS, only: nil, name: "waiting", against: against)
      @against = against
      @requests = requests
      @rounds = rounds
      @bursts = Hash.new { |hash, key| hash[key] = [] }
      @memory = {}
    end

    def run
      Files.raise_limit
      @client = Compiler.program("clients/burst.c")
      start_upstream
      @field.start(size: 12, app: APP, env: { "UPSTREAM" => @upstream.to_s }) do |port|
        Probe.get(port: port, path: "/0", seconds: 2)&.body == "/0"
      end
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        @field.turn(round).each { |entry| burst_into(entry) }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["server", "right", "wrong", "lost", "wall ms", "p50 ms", "p99 ms", "CPU µs", "peak MB"])
      @bursts.each { |label, bursts| table.add(*row(label, bursts)) }
      @field.absent.each { |label, reason| table.note(label, reason) }
      "#{table}\n#{@against&.render(@bursts, "wall µs": :wall, "p99 µs": :p99, "CPU µs": :cpu)}"
    end

    # @return [Hash] for the results file
    def to_h
      { requests: @requests, rounds: @rounds, upstream_delay_ms: DELAY, absent: @field.absent, peak_rss: @memory,
        bursts: @bursts.transform_values { |bursts| bursts.map(&:to_h) } }
    end

    private

    # Counts are totals of all rounds, because one wrong answer in any of them matters.
    def row(label, bursts)
      lost = bursts.sum { |burst| burst.dropped + burst.unanswered + burst.refused }
      times = %i[wall p50 p99].map { |field| (Statistics.median(bursts.map(&field)) / 1000.0).round }
      [label, bursts.sum(&:right), bursts.sum(&:wrong), lost, *times,
       Statistics.median(bursts.map(&:cpu)).round, @memory[label].fdiv(1 << 20).round]
    end

    def start_upstream
      @upstream = Ports.free
      child = Child.new([Compiler.program("servers/upstream_epoll.c"), @upstream.to_s, DELAY.to_s], name: "upstream")
      child.wait_ready(seconds: 5) { Probe.get(port: @upstream, path: "/ready", seconds: 1) }
    end

    def burst_into(entry)
      meter = CpuMeter.new(entry.child.pid).start
      text = Machine.output_of(@client, entry.port.to_s, @requests.to_s, DEADLINE.to_s)
      used = meter.stop
      raise Failed, "#{entry.label}: the client could not run: #{text}" unless text&.start_with?("right=")

      figures = text.scan(/(\w+)=(\d+)/).to_h { |name, number| [name.to_sym, number.to_i] }
      @bursts[entry.label] << Burst.new(**figures, cpu: used.nanoseconds / 1000.0 / @requests)
      @memory[entry.label] = entry.child.peak_resident
    end
  end
end

Bench.main("waiting") do |main|
  main.option(:requests, 1000, "requests at once")
  main.option(:rounds, 3, "bursts for each server")
  main.against
  main.measure do |options|
    title = "#{options[:requests]} requests at once, Net::HTTP.get to an upstream of #{Bench::Waiting::DELAY} ms"
    main.show(Bench::Waiting.new(**options), title)
  end
end
