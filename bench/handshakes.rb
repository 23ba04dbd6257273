# frozen_string_literal: true

# What clients without TLS notice of full handshakes beside them: see README.md.
# Usage: ruby bench/handshakes.rb --help

require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Keep-alive clients without TLS at a steady rate, first alone, then beside handshakes at a rate of theirs, which the
  # same process does on another port.
  class Beside
    CLIENTS = 50
    RATE = 20 # requests a second of each
    PLACES = 100 # handshakes at once
    SERVERS = %w[abaca nginx].freeze
    Turn = Struct.new(:alone_p50, :alone_p99, :beside_p50, :beside_p99, :failed, :handshakes, :late, :handshake_p99,
                      keyword_init: true)

    def initialize(key:, rate:, only:, rounds:, seconds:)
      @pair = Certificate.pair(key.to_sym)
      @rate = rate
      @rounds = rounds
      @seconds = seconds
      @field = Field.new(only: only || SERVERS, name: "handshakes", cpu: 0)
      @clients = H2load.new(cpu: 1)
      # What they compute themselves shall not delay the others.
      @handshakes = Handshakes.new(cpu: 1, nice: 19)
    end

    def run
      @field.rounds(@rounds, "#{@rate} handshakes a second") do |entry|
        plain = Ports.free
        right = ->(port) { [[port, true], [plain, false]].all? { |place, tls| right?(place, tls) } }
        @field.alone(entry, protocol: :https, pair: @pair, plain: plain, right: right) { measure(entry.port, plain) }
      end
    end

    # @return [String] a table
    def render
      @field.render("p50/p99 ms alone", "beside", "failed", "handshakes", "late", "their p99 ms") do |turns|
        cells(turns)
      end
    end

    # @return [Hash] for the results file
    def to_h = { clients: CLIENTS, rate_of_each: RATE, **@field.to_h }

    private

    def right?(port, tls) = Probe.get(port: port, seconds: 2, tls: tls)&.body == "Hello World\n"

    def measure(port, plain)
      ask(plain, 1) # the heap grows now, not later
      alone, = ask(plain, @seconds)
      shaking = Thread.new { @handshakes.run(port: port, connections: PLACES, seconds: @seconds, rate: @rate) }
      shaking.report_on_exception = false
      beside, failed = ask(plain, @seconds)
      found = shaking.value
      Turn.new(alone_p50: share(alone, 50), alone_p99: share(alone, 99), beside_p50: share(beside, 50),
               beside_p99: share(beside, 99), failed: failed, handshakes: found.requests, late: found.timeout,
               handshake_p99: found.p99)
    end

    def ask(port, seconds)
      @clients.paced(port: port, connections: CLIENTS, rate: RATE, seconds: seconds, http1: true)
    end

    def share(times, percent) = Statistics.percentile(times, percent)

    def cells(turns)
      pairs = [%i[alone_p50 alone_p99], %i[beside_p50 beside_p99]].map do |pair|
        pair.map { |field| milliseconds(turns, field) }.join("/")
      end
      [*pairs, turns.sum(&:failed), turns.sum(&:handshakes), turns.sum(&:late), milliseconds(turns, :handshake_p99)]
    end

    def milliseconds(turns, field) = (Statistics.median(turns.map(&field)) / 1000.0).round(2)
  end
end

Bench.main("handshakes") do |main|
  main.quick("1 round of 2 s", rounds: 1, seconds: 2)
  main.option(:only, nil, "these servers: #{Bench::Beside::SERVERS.join(" ")}")
  main.option(:key, "ecdsa", "of the certificate: ecdsa or rsa")
  main.option(:rate, 200, "handshakes a second")
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:seconds, 5, "seconds of each load")
  main.measure { |options| main.show(Bench::Beside.new(**options)) }
end
