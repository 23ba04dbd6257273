# frozen_string_literal: true

# The poller's back ends: a steady load beside idle connections, over epoll and over poll(2). See README.md.
# Usage: ruby bench/pollers.rb --help

require "open3"
require "rbconfig"
require_relative "support/bench"
require_relative "servers/field"
require_relative "idle/crowd"

module Bench
  # The same server twice: as it is built here, and as it is where there is nothing but POSIX 2008. Each turn has a
  # server of its own.
  class Pollers
    PORTABLE = { "RUBYOPT" => "-r#{File.join(ROOT, "test", "support", "portable_build")}" }.freeze
    BUILDS = { "epoll" => {}, "poll" => PORTABLE }.freeze # the variables of each, by what its loops wait with
    ASK = 'require "abaca"; print Abaca::Platform.here.poller'
    SPARE_FILES = 500
    Turn = Struct.new(:p50, :p99, :worst, :cpu, :failed, :alive, keyword_init: true)

    # @param active [Integer] connections that ask, at `rate` requests a second each
    # @param idle [Integer] connections that do not
    def initialize(active:, idle:, rate:, rounds:, seconds:)
      @field = Field.new(settings: BUILDS.keys.map { |poller| ["abaca", {}, "abaca, #{poller}"] }, name: "pollers",
                         cpu: 0)
      @active = active
      @idle = [idle, Files.raise_limit - SPARE_FILES].min
      @rate = rate
      @rounds = rounds
      @seconds = seconds
      @clients = H2load.new(cpu: 1)
    end

    # @return [String]
    def title = "#{@active} connections, #{@rate} requests a second each, beside #{@idle} idle ones"

    def run
      @field.rounds(@rounds, title) do |entry|
        poller = entry.label.split.last
        env = BUILDS.fetch(poller)
        check(poller, env)
        @field.alone(entry, env: env) { measure(entry.port, entry.child) }
      end
    end

    # @return [String] a table
    def render
      @field.render("p50 ms", "p99 ms", "worst ms", "CPU µs/request", "failed", "still open") do |turns|
        times = %i[p50 p99 worst].map { |figure| (median(turns, figure) / 1000.0).round(2) }
        [*times, median(turns, :cpu).round(1), turns.sum(&:failed), turns.map(&:alive).min]
      end
    end

    # @return [Hash] for the results file
    def to_h = { active: @active, idle: @idle, rate_of_each: @rate, **@field.to_h }

    private

    def median(turns, figure) = Statistics.median(turns.map(&figure))

    # Without a portable build, its Ruby would have the usual one.
    def check(poller, env)
      found, = Open3.capture2e(env, RbConfig.ruby, "-I#{File.join(ROOT, "lib")}", "-e", ASK)
      raise Unavailable, "waits with #{found.lines.last}: rake compile compile:portable" unless found == poller
    end

    def measure(port, child)
      ask(port, 1) # the heap grows now, not later
      crowd = Crowd.new(port)
      crowd.grow(@idle)
      meter = CpuMeter.new(child.pid).start
      times, failed = ask(port, @seconds)
      used = meter.stop.nanoseconds / 1000.0
      Turn.new(p50: Statistics.percentile(times, 50), p99: Statistics.percentile(times, 99), worst: times.max,
               cpu: used / times.size, failed: failed, alive: crowd.alive)
    ensure
      crowd&.close
    end

    def ask(port, seconds)
      @clients.paced(port: port, connections: @active, rate: @rate, seconds: seconds, http1: true)
    end
  end
end

Bench.main("pollers") do |main|
  main.quick("1 round of 2 s", rounds: 1, seconds: 2)
  main.option(:active, 100, "connections that ask")
  main.option(:idle, 1000, "idle connections")
  main.option(:rate, 20, "requests a second of each that asks")
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:seconds, 5, "seconds of each load")
  main.measure do |options|
    pollers = Bench::Pollers.new(**options)
    main.show(pollers, pollers.title)
  end
end
