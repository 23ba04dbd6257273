# frozen_string_literal: true

# A body of a megabyte in small pieces: how much of it is sent per second of CPU time. See README.md. Usage: ruby
# bench/streaming.rb --help

require_relative "support/bench"
require_relative "servers/catalog"

module Bench
  # Rounds of a load on an app that yields its body piece by piece, interleaved.
  class Streaming
    APP = File.join(DIR, "apps", "streaming.ru")
    Turn = Struct.new(:megabytes, :cpu, :rate, keyword_init: true)

    def initialize(only:, pieces:, size:, connections:, rounds:, seconds:)
      @servers = Catalog.pick(only)
      @pieces = pieces
      @size = size
      @connections = connections
      @rounds = rounds
      @seconds = seconds
      @wrk = Wrk.new(cpu: 1)
      @turns = Hash.new { |hash, key| hash[key] = [] }
      @absent = {}
    end

    # @return [Integer] bytes of one body
    def total = @pieces * @size

    def run
      running = @servers.filter_map { |server| start(server) }
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        (round.even? ? running : running.reverse).each { |entry| turn(entry) }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["server", "MB a CPU second", "best", "µs a piece", "abaca ÷ this"])
      first = @turns.key?("abaca") ? middle("abaca") : nil
      @turns.each_key { |name| table.add(*row(name, first)) }
      @absent.each { |name, reason| table.note(name, reason) }
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h
      { pieces: @pieces, bytes_per_piece: @size, connections: @connections, rounds: @rounds, seconds: @seconds,
        absent: @absent, turns: @turns.transform_values { |turns| turns.map(&:to_h) } }
    end

    private

    def middle(name) = Statistics.median(@turns[name].map(&:rate))

    def row(name, first)
      rate = middle(name)
      piece = 1e6 * @size / (rate * (1 << 20))
      [name, rate.round, @turns[name].map(&:rate).max.round, piece.round(2), first ? (first / rate).round(2) : "-"]
    end

    def start(server)
      server.prepare
      port = Ports.free
      env = server.env(size: 12).merge("PIECES" => @pieces.to_s, "PIECE" => @size.to_s)
      child = Child.new(server.command(port: port, app: APP), name: "streaming-#{server.name}", cpu: 0, env: env)
      child.wait_ready(seconds: 20) { Probe.get(port: port, seconds: 2)&.body&.bytesize == total }
      @wrk.run(port: port, connections: @connections, seconds: 1)
      { name: server.name, port: port, child: child }
    rescue Unavailable, Failed => e
      @absent[server.name] = e.message
      nil
    end

    def turn(entry)
      return if @absent.key?(entry[:name])

      meter = CpuMeter.new(entry[:child].pid).start
      figures = @wrk.run(port: entry[:port], connections: @connections, seconds: @seconds)
      used = meter.stop
      failed = figures.errors * 100 > figures.requests
      raise Failed, "#{figures.errors} errors in #{figures.requests} requests" if failed
      raise Failed, "a thread ended within the round" if used.lost

      megabytes = figures.requests * total.fdiv(1 << 20)
      cpu = used.nanoseconds / 1e9
      rate = megabytes / cpu
      @turns[entry[:name]] << Turn.new(megabytes: megabytes.round(1), cpu: cpu.round(4), rate: rate.round(1))
    rescue Failed => e
      @absent[entry[:name]] = e.message
      @turns.delete(entry[:name])
    end
  end
end

Bench.main("streaming") do |main|
  main.option(:only, %w[abaca puma falcon iodine itsi], "these servers")
  main.option(:pieces, 1024, "pieces of a body")
  main.option(:size, 1024, "bytes of a piece")
  main.option(:connections, 8, "clients at once")
  main.option(:rounds, 3, "rounds")
  main.option(:seconds, 2, "seconds for each server in a round")
  main.measure do |options|
    title = format("%<pieces>d pieces of %<size>d bytes, %<connections>d clients at once", options)
    main.show(Bench::Streaming.new(**options), title)
  end
end
