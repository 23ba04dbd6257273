# frozen_string_literal: true

# A connection for each request, HTTP/1.0 (ab -c 256): requests/s, the tail and CPU time. See README.md.
# Usage: ruby bench/ab.rb --help

require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Runs ab against each server in interleaved rounds.
  class ApacheBench
    CONCURRENCY = 256
    SIZE = 1200 # bytes of the body
    LIMIT = 180 # seconds for one turn
    SETTLE = 0.1 # seconds until the requests that ab did not wait for are served too
    SETTINGS = [["limit", { closing: true }], ["abaca", {}], ["puma", { threads: 5 }], ["iodine", {}],
                ["itsi", { fibers: true }], ["falcon", {}], ["nginx", {}]].freeze
    Round = Struct.new(:per_second, :mean, :p50, :p99, :slowest, :failed, :cpu, keyword_init: true)

    def initialize(ruby:, only:, requests:, rounds:, pinned:)
      @field = Field.new(settings: SETTINGS, ruby: ruby, only: only, name: "ab", cpu: pinned ? 0 : nil)
      @program = Tools.find("ab")
      @requests = requests
      @count = rounds
      @pinned = pinned
    end

    def run
      @field.start(size: SIZE, right: ->(port) { Probe.get(port: port)&.body == "x" * SIZE })
      @field.each { |entry| measure(entry, [@requests / 10, CONCURRENCY].max) } # warm-up
      @field.rounds(@count) { |entry| measure(entry, @requests) }
    ensure
      @field.stop
    end

    # @return [String] a table: medians, but the worst maximum and all failures
    def render
      columns = ["requests/s", "mean ms", "p50 ms", "p99 ms", "max ms", "p99/p50", "failed", "CPU µs"]
      @field.render(*columns) do |rounds|
        per_second, mean, p50, p99, cpu = %i[per_second mean p50 p99 cpu].map do |field|
          Statistics.median(rounds.map(&field))
        end
        [per_second.round, mean.round(1), p50.round, p99.round, rounds.map(&:slowest).max, (p99 / p50).round(1),
         rounds.sum(&:failed), cpu.round(1)]
      end
    end

    # @return [Hash] for the results file
    def to_h = { concurrency: CONCURRENCY, body_bytes: SIZE, **@field.to_h }

    private

    def measure(entry, requests)
      meter = CpuMeter.new(entry.child.pid).start
      text = run_client(entry.port, requests)
      sleep SETTLE
      round(text, meter.stop.nanoseconds / 1000.0 / requests)
    end

    def run_client(port, requests)
      pin = @pinned ? ["taskset", "-c", "1"] : []
      child = Child.new([*pin, @program, "-q", "-c", CONCURRENCY.to_s, "-n", requests.to_s, "http://127.0.0.1:#{port}/"],
                        name: "ab-client", files: Files.raise_limit)
      status = Bench.account.client { child.wait(seconds: LIMIT) }
      child.stop
      raise Failed, "stalled: ab did not end within #{LIMIT} s" unless status
      raise Failed, "ab: #{child.last_words}" unless status.success?

      File.read(child.log)
    end

    # ab counts a status that is not 200 apart from the failures.
    def round(text, cpu)
      number = ->(pattern) { text[pattern, 1]&.to_f }
      Round.new(
        per_second: number[/^Requests per second:\s+([\d.]+)/],
        mean: number[/^Time per request:\s+([\d.]+) \[ms\] \(mean\)/],
        p50: number[/^\s+50%\s+(\d+)/], p99: number[/^\s+99%\s+(\d+)/], slowest: number[/^\s*100%\s+(\d+)/]&.round,
        failed: (number[/^Failed requests:\s+(\d+)/] + number[/^Non-2xx responses:\s+(\d+)/].to_f).to_i, cpu: cpu
      )
    end
  end
end

Bench.main("ab") do |main|
  main.quick("one round of 5,000 requests", requests: 5_000, rounds: 1)
  main.option(:requests, 100_000, "requests of each turn")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:only, nil, "only these servers")
  main.ruby
  main.unpinned
  main.measure do |options|
    title = "ab -c #{Bench::ApacheBench::CONCURRENCY} -n #{options[:requests]}, HTTP/1.0, a body of " \
            "#{Bench::ApacheBench::SIZE} bytes; Ruby #{options[:ruby].version}"
    main.show(Bench::ApacheBench.new(**options), title)
  end
end
