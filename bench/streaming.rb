# frozen_string_literal: true

# A body of a megabyte in small pieces: how much of it is sent per second of CPU time. See README.md. Usage: ruby
# bench/streaming.rb --help

require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Rounds of a load on an app that yields its body piece by piece, interleaved.
  class Streaming
    APP = File.join(DIR, "apps", "streaming.ru")
    Turn = Struct.new(:megabytes, :cpu, :rate, keyword_init: true)

    def initialize(only:, ruby:, pieces:, size:, connections:, rounds:, seconds:) # rubocop:disable Metrics/ParameterLists
      @field = Field.new(only: only, ruby: ruby, name: "streaming", cpu: 0)
      @pieces = pieces
      @size = size
      @rounds = rounds
      @load = { connections: connections, seconds: seconds }
      @wrk = Wrk.new(cpu: 1)
    end

    # @return [Integer] bytes of one body
    def total = @pieces * @size

    def run
      @field.start(app: APP, env: { "PIECES" => @pieces.to_s, "PIECE" => @size.to_s },
                   right: ->(port) { Probe.get(port: port)&.body == "x" * total })
      @field.each { |entry| @wrk.run(port: entry.port, **@load, seconds: 1) } # warm-up
      @field.rounds(@rounds) { |entry| measure(entry) }
    ensure
      @field.stop
    end

    # @return [String] a table
    def render
      first = @field.turns.fetch("abaca", []).map(&:rate)
      @field.render("MB a CPU second", "best", "µs a piece", "abaca ÷ this") do |turns|
        rate = rate(turns)
        piece = 1e6 * @size / (rate * (1 << 20))
        [rate.round, turns.map(&:rate).max.round, piece.round(2), Ratio.new(first, turns.map(&:rate)).cell]
      end
    end

    # @return [Hash] for the results file
    def to_h = { bytes_per_piece: @size, **@field.to_h }

    private

    def rate(turns) = Statistics.median(turns.map(&:rate))

    def measure(entry)
      meter = CpuMeter.new(entry.child.pid).start
      figures = @wrk.run(port: entry.port, **@load)
      used = meter.stop

      megabytes = figures.requests * total.fdiv(1 << 20)
      cpu = used.nanoseconds / 1e9
      Turn.new(megabytes: megabytes.round(1), cpu: cpu.round(4), rate: (megabytes / cpu).round(1))
    end
  end
end

Bench.main("streaming") do |main|
  main.quick("one round of 1 s", rounds: 1, seconds: 1)
  main.option(:only, %w[abaca puma falcon iodine itsi], "these servers")
  main.option(:pieces, 1024, "pieces of a body")
  main.option(:size, 1024, "bytes of a piece")
  main.option(:connections, 8, "clients at once")
  main.option(:rounds, 3, "rounds")
  main.option(:seconds, 2, "seconds for each server in a round")
  main.ruby
  main.measure do |options|
    title = format("%<pieces>d pieces of %<size>d bytes, %<connections>d clients at once", options)
    main.show(Bench::Streaming.new(**options), title)
  end
end
