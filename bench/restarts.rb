# frozen_string_literal: true

# Restarts under load: what becomes of the requests, and how long until the new code serves. See README.md.
# Usage: ruby bench/restarts.rb --help

require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Keep-alive clients at a steady pace, while the server gets its signal for a restart again and again.
  class Restarts
    APP = File.join(DIR, "apps", "restarts.ru")
    CLIENTS = 50
    THINK = 100 # ms that a client rests after each answer
    BEFORE = 1 # seconds until the first signal
    EVERY = 4 # seconds between two
    STREAK = 20 # answers of the new code, one after another, until it is said to serve
    PAUSE = 0.01 # seconds between two looks
    SETTINGS = [
      ["abaca", { signal: "USR2" }, "abaca, hot"],
      ["abaca", { settings: { workers: 2, preload_app!: false }, signal: "USR1" }, "abaca, 2 workers, phased"],
      ["puma", { signal: "USR2" }, "puma, USR2"],
      ["puma", { workers: 2, preload: false, signal: "USR1" }, "puma, 2 workers, phased"],
      ["falcon", { signal: "HUP" }, "falcon, HUP"], ["itsi", { threads: 5, signal: "HUP" }, "itsi, HUP"]
    ].freeze
    # `changes`: seconds from each signal until the new code served, nil if it never did.
    Turn = Struct.new(:changes, :answered, :failed, :p50, :p99, :worst, keyword_init: true)

    def initialize(times:, rounds:, **options)
      @field = Field.new(settings: SETTINGS, name: "restarts", **options)
      @times = times
      @rounds = rounds
    end

    # Nothing is pinned: a program that boots beside one that serves needs both processors.
    def run
      right = ->(port) { loaded(port)&.positive? }
      @field.rounds(@rounds) { |entry| @field.alone(entry, app: APP, right: right) { measure(entry) } }
    end

    # Failures are totals, because one in any round matters; so is the worst. The rest are medians.
    #
    # @return [String] a table
    def render
      @field.render("restarts", "new code after ms", "answered", "failed", "p50 ms", "p99 ms", "worst ms") do |turns|
        changes = turns.flat_map(&:changes)
        times = [*%i[p50 p99].map { |field| Statistics.median(turns.map(&field)) }, turns.map(&:worst).max]
        ["#{changes.compact.size}/#{changes.size}", (Statistics.median(changes.compact) * 1000).round,
         turns.sum(&:answered), turns.sum(&:failed), *times.map { |us| (us / 1000.0).round(1) }]
      end
    end

    # @return [Hash] for the results file
    def to_h = { clients: CLIENTS, think_ms: THINK, restarts_of_a_turn: @times, **@field.to_h }

    private

    # When the app that answers was loaded, in monotonic nanoseconds.
    def loaded(port)
      body = Probe.get(port: port, seconds: 5)&.body.to_s
      body.to_i if body.match?(/\A\d{20}\z/)
    end

    def measure(entry)
      load = Thread.new { ask(entry.port) }
      load.report_on_exception = false
      sleep BEFORE
      changes = Array.new(@times) { restart(entry) }
      found = load.value
      raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?
      raise Failed, "the new code never served" if changes.none?

      Turn.new(changes: changes, answered: found[:answered], p50: found[:light_p50], p99: found[:light_p99],
               failed: found.values_at(:wrong, :lost, :refused, :unanswered).sum, worst: found[:light_worst])
    end

    def ask(port)
      seconds = BEFORE + (EVERY * @times)
      Client.figures("steady", "port=#{port}", "connections=#{CLIENTS}", "seconds=#{seconds}", "think=#{THINK}",
                     "path=/", limit: seconds + 20)
    end

    # @return [Float, nil] seconds until nobody but the new code has answered
    def restart(entry)
      told = Clock.now
      Process.kill(entry.options.fetch(:signal), entry.child.pid)
      first = served(entry.port, told)
      left = told + EVERY - Clock.now
      sleep(left) if left.positive?
      first && (first - told)
    rescue Errno::ESRCH
      raise Failed, "died: #{entry.child.last_words}"
    end

    # When the first of STREAK answers came that were all the new code's.
    def served(port, told)
      streak = []
      Clock.wait_until(seconds: EVERY, every: PAUSE) do
        newer = loaded(port).to_i > told * 1e9
        newer ? streak << Clock.now : streak.clear
        streak.size == STREAK
      end && streak.first
    end
  end
end

Bench.main("restarts") do |main|
  main.quick("one restart of each", rounds: 1, times: 1)
  main.option(:times, 3, "restarts in a turn")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:only, nil, "only these servers")
  main.ruby
  main.measure do |options|
    title = "restarts beside #{Bench::Restarts::CLIENTS} clients, each request waits 5 ms"
    main.show(Bench::Restarts.new(**options), title)
  end
end
