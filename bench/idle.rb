# frozen_string_literal: true

# Idle connections, with TLS and HTTP/2 too, beside 50 active ones: latency and memory. See README.md.
# Usage: ruby bench/idle.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "idle/crowd"

module Bench
  # The active connections alone and beside the idle ones, and the memory that the idle ones take. Each turn has a
  # server of its own, since what idle connections have left would serve the next.
  class Idle
    ACTIVE = 50
    SPARE_FILES = 500
    Turn = Struct.new(:alone_p99, :beside_p99, :alone_p50, :beside_p50, :alone_rate, :beside_rate, :bytes, :alive,
                      keyword_init: true)

    # What is idle, how many of them, and beside whom Abaca is measured.
    Row = Struct.new(:name, :title, :protocol, :connections, :servers)
    ROWS = [
      Row.new("plain", "keep-alive connections", :http1, 10_000, %w[limit abaca puma]),
      Row.new("tls", "keep-alive connections with TLS", :https, 5_000, %w[abaca puma nginx]),
      Row.new("h2", "HTTP/2 connections with TLS", :h2, 5_000, %w[abaca nginx]),
      Row.new("many", "keep-alive connections", :http1, 100_000, %w[limit abaca nginx puma])
    ].freeze

    # @param row [Row]
    # @param only [Array<String>, nil] instead of the row's servers
    # @param connections [Integer] idle ones, 0 for the row's
    # @param ruby [Ruby] of the servers
    def initialize(row:, only:, ruby:, connections:, rounds:, seconds:)
      @row = row
      @field = Field.new(only: only || row.servers, ruby: ruby, name: "idle-#{row.name}", cpu: 0)
      @wanted = connections.zero? ? row.connections : connections
      @count = [@wanted, Files.raise_limit(@wanted + SPARE_FILES) - SPARE_FILES].min
      @rounds = rounds
      @seconds = seconds
      @wrk = Wrk.new(cpu: 1)
      @tls = row.protocol != :http1
    end

    # @return [String]
    def title = "#{@count} idle #{@row.title} beside #{ACTIVE} active connections#{shortage}"

    def run
      terms = { connections: @count * 2 } # nginx closes idle ones when it has few places left
      terms.update(protocol: @row.protocol, pair: Certificate.pair(:ecdsa)) if @tls
      right = ->(port) { Probe.get(port: port, seconds: 2, tls: @tls)&.body == Crowd::BODY }
      @field.rounds(@rounds, "#{@row.name}: #{@count} idle connections") do |entry|
        raise Unavailable, "does not speak it" unless entry.server.speaks?(@row.protocol)

        @field.alone(entry, right: right, **terms) { measure(entry) }
      end
    end

    # @return [String] a table
    def render
      @field.render("bytes/idle", "still open", "p50 alone/beside ms", "p99 alone/beside ms", "p99 ratio") do |turns|
        cells(turns)
      end
    end

    # @return [Hash] for the results file
    def to_h = { row: @row.name, idle: @count, wanted: @wanted, active: ACTIVE, **@field.to_h }

    private

    def shortage = (" (not #{@wanted}: the limit of open files is #{Files.raise_limit})" if @count < @wanted)

    def cells(turns)
      pairs = [%i[alone_p50 beside_p50], %i[alone_p99 beside_p99]].map do |pair|
        pair.map { |field| (Statistics.median(turns.map(&field)) / 1000.0).round(2) }
      end
      ratio = Ratio.new(*%i[beside_p99 alone_p99].map { |field| turns.map(&field) })
      [Statistics.median(turns.map(&:bytes)).round, turns.map(&:alive).min, *pairs.map { |pair| pair.join("/") },
       ratio.cell]
    end

    # The heap grows now, not later. What the first connections with TLS leave behind would serve many idle ones.
    def measure(entry)
      ask(entry.port, connections: @tls ? ACTIVE : 256, seconds: 2)
      turn(entry.port, entry.child)
    end

    def turn(port, child)
      alone = ask(port)
      crowd = Crowd.new(port, protocol: @row.protocol)
      before = child.resident
      crowd.grow(@count)
      bytes = (child.resident - before) / @count
      beside = ask(port)
      Turn.new(alone_p99: alone.p99, beside_p99: beside.p99, alone_p50: alone.p50, beside_p50: beside.p50,
               alone_rate: alone.per_second, beside_rate: beside.per_second, bytes: bytes, alive: crowd.alive)
    ensure
      crowd&.close
    end

    def ask(port, connections: ACTIVE, seconds: @seconds)
      @wrk.run(port: port, connections: connections, seconds: seconds, tls: @tls)
    end
  end
end

Bench.main("idle") do |main|
  main.quick("one round of 2,000", rounds: 1, seconds: 1, connections: 2000)
  main.option(:rows, %w[plain tls h2], "only these: #{Bench::Idle::ROWS.map(&:name).join(" ")}")
  main.option(:only, nil, "these servers")
  main.option(:connections, 0, "idle connections; 0 for 10,000, 5,000 with TLS, 100,000 for many")
  main.option(:rounds, 3, "rounds for each server")
  main.option(:seconds, 3, "seconds of each load")
  main.ruby
  main.measure do |options|
    rows = Bench.pick(Bench::Idle::ROWS, options[:rows], "row").map do |row|
      idle = Bench::Idle.new(row: row, **options.except(:rows))
      main.show(idle, idle.title)
    end
    { rows: rows }
  end
end
