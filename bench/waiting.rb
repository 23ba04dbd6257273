# frozen_string_literal: true

# An app that waits 100 ms for an upstream, with 1,000 requests at once on one process: see README.md.
# Usage: ruby bench/waiting.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "servers/upstream"

module Bench
  # Bursts of requests against a waiting app, each answer checked for its own number.
  class Waiting
    APP = File.join(DIR, "apps", "waiting.ru")
    DELAY = 100 # ms that the upstream takes
    DEADLINE = 120 # seconds for one burst
    SETTINGS = [["abaca", {}], ["puma", { threads: 5 }], ["puma", { threads: 64 }]].freeze
    Burst = Struct.new(:right, :wrong, :dropped, :unanswered, :wall, :p50, :p99, :slowest, :refused, :refused_slowest,
                       :cpu, :peak, keyword_init: true)

    def initialize(requests:, rounds:, **options)
      @field = Field.new(settings: SETTINGS, name: "waiting", **options)
      @requests = requests
      @rounds = rounds
    end

    def run
      right = ->(port) { Probe.get(port: port, path: "/0")&.body == "/0" }
      @field.start(app: APP, env: Upstream.start(DELAY), right: right)
      @field.rounds(@rounds) { |entry| burst_into(entry) }
    end

    # Counts are totals of all rounds, because one wrong answer in any of them matters.
    #
    # @return [String] a table
    def render
      @field.render("right", "wrong", "lost", "wall ms", "p50 ms", "p99 ms", "CPU µs", "peak MB",
                    "wall µs": :wall, "p99 µs": :p99, "CPU µs": :cpu) do |bursts|
        lost = bursts.sum { |burst| burst.dropped + burst.unanswered + burst.refused }
        times = %i[wall p50 p99].map { |field| (Statistics.median(bursts.map(&field)) / 1000.0).round }
        [bursts.sum(&:right), bursts.sum(&:wrong), lost, *times, Statistics.median(bursts.map(&:cpu)).round,
         bursts.last.peak.fdiv(1 << 20).round]
      end
    end

    # @return [Hash] for the results file
    def to_h = { upstream_delay_ms: DELAY, **@field.to_h }

    private

    def burst_into(entry)
      meter = CpuMeter.new(entry.child.pid).start
      figures = Client.figures("burst", entry.port.to_s, @requests.to_s, DEADLINE.to_s, limit: DEADLINE + 10)
      used = meter.stop
      Burst.new(**figures, cpu: used.nanoseconds / 1000.0 / @requests, peak: entry.child.peak_resident)
    end
  end
end

Bench.main("waiting") do |main|
  main.quick("one burst of 200", requests: 200, rounds: 1)
  main.option(:requests, 1000, "requests at once")
  main.option(:rounds, 3, "bursts for each server")
  main.ruby
  main.against
  main.measure do |options|
    title = "#{options[:requests]} requests at once, Net::HTTP.get to an upstream of #{Bench::Waiting::DELAY} ms"
    main.show(Bench::Waiting.new(**options), title)
  end
end
