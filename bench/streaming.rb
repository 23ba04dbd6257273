# frozen_string_literal: true

# A body of a megabyte in small pieces: how much of it goes out in a second of CPU time. See README.md.
# Usage: ruby bench/streaming.rb --help

require "optparse"
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

    # @return [Integer] octets of one body
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
      { pieces: @pieces, octets_per_piece: @size, connections: @connections, rounds: @rounds, seconds: @seconds,
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

options = { only: %w[abaca puma falcon iodine itsi], pieces: 1024, size: 1024, connections: 8, rounds: 3, seconds: 2 }
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench streaming [options]"
  parser.on("--only A,B", Array, "these servers (abaca,puma,falcon,iodine,itsi)") { |names| options[:only] = names }
  parser.on("--pieces N", Integer, "pieces of a body (1024)") { |n| options[:pieces] = n }
  parser.on("--size N", Integer, "octets of a piece (1024)") { |n| options[:size] = n }
  parser.on("--connections N", Integer, "clients at once (8)") { |n| options[:connections] = n }
  parser.on("--rounds N", Integer, "rounds (3)") { |n| options[:rounds] = n }
  parser.on("--seconds S", Integer, "seconds for each server in a round (2)") { |s| options[:seconds] = s }
end.parse!

begin
  streaming = Bench::Streaming.new(**options)
  streaming.run
  path = Bench::Results.write("streaming", streaming.to_h)
  puts "", "#{options[:pieces]} pieces of #{options[:size]} octets, #{options[:connections]} clients at once", "",
       streaming.render, "", "written to #{path}"
rescue Bench::Unavailable, ArgumentError => e
  abort "bench: #{e.message}"
end
