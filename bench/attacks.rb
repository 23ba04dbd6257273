# frozen_string_literal: true

# What 50 clients notice of attacks beside them: see README.md.
# Usage: ruby bench/attacks.rb --help

require "json"
require "open3"
require_relative "support/bench"
require_relative "servers/catalog"
require_relative "attacks/pieces"
require_relative "attacks/streams"
require_relative "../test/support/http2_attacks"

module Bench
  # Attacks on HTTP/2. A server of its own for each: first the honest clients alone, then with the attack beside them.
  class Attacks
    APP = File.join(DIR, "apps", "attacked.ru")
    # Slow attackers come to their end while they are watched.
    SETTINGS = { header_timeout: 2, write_timeout: 2, body_timeout: 2, rate_grace: 2, linger_timeout: 1 }.freeze
    HONEST = 50
    RATE = 10 # requests a second of each
    Found = Struct.new(:alone, :beside, :requests, :failed, :bytes, :ends, keyword_init: true)
    Named = Struct.new(:name)

    def initialize(only:, seconds:)
      @names = Bench.pick(Http2Attacks::ALL.keys.map { |name| Named.new(name.to_s) }, only, "attack").map(&:name)
      @seconds = seconds
      @clients = H2load.new(cpu: 1)
      @found = {}
    end

    def run
      @names.each do |name|
        warn "#{name}: #{2 * @seconds} s"
        @found[name] = measure(name)
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["attack", "p50/p99 ms alone", "beside", "answered", "failed", "memory MB", "its ends"])
      @found.each do |name, found|
        table.add(name.tr("_", " "), found.alone.join("/"), found.beside.join("/"), found.requests, found.failed,
                  (found.bytes / 1e6).round(1), found.ends.map { |code, times| "#{times} #{code}" }.join(", "))
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h = { honest: HONEST, rate: RATE, seconds: @seconds, attacks: @found.transform_values(&:to_h) }

    private

    def measure(name)
      server, port = start(name)
      ask(port, 2) # the heap grows now, not later
      alone = ask(port, @seconds)
      memory = server.resident
      ends = nil
      attacker = Thread.new { ends = attack(port, name) }
      beside = ask(port, @seconds)
      bytes = server.resident - memory
      attacker.join
      found(alone, beside, bytes, ends)
    ensure
      server&.stop
    end

    def found(alone, beside, bytes, ends)
      before, after = [alone, beside].map do |times, _|
        [50, 99].map { |percent| (Statistics.percentile(times, percent) / 1000.0).round(1) }
      end
      Found.new(alone: before, beside: after, requests: beside.first.size, failed: beside.last, bytes: bytes,
                ends: ends)
    end

    def start(name)
      abaca, = Catalog.pick(%w[abaca])
      abaca.prepare
      port = Ports.free
      child = Child.new(abaca.command(port: port, app: APP, settings: SETTINGS, protocol: :h2c),
                        name: "attacks-#{name}", env: abaca.env(size: 12), cpu: 0)
      child.wait_ready(seconds: 20) { Probe.get(port: port, seconds: 1) }
      [child, port]
    end

    def ask(port, seconds) = @clients.paced(port: port, connections: HONEST, rate: RATE, seconds: seconds)

    def attack(port, name)
      # What it computes itself shall not delay the honest clients.
      text, = Open3.capture2e("nice", "-n", "19", "taskset", "-c", "1", RbConfig.ruby,
                              File.join(DIR, "clients", "attack.rb"), port.to_s, name, @seconds.to_s)
      JSON.parse(text.lines.last.to_s)
    rescue JSON::ParserError
      { text.strip => 1 }
    end
  end
end

Bench.main("attacks") do |main|
  main.quick("2 s each", seconds: 2, rounds: 1)
  main.option(:parts, %w[floods pieces streams], "some of these")
  main.option(:only, nil, "only these floods: #{Http2Attacks::ALL.keys.join(" ")}")
  main.option(:rows, nil, "only these rows of pieces: #{Bench::Pieces::ROWS.map(&:name).join(" ")}")
  main.option(:servers, Bench::Pieces::SERVERS, "beside which pieces are sent")
  main.option(:rounds, 3, "rounds of pieces and streams")
  main.option(:seconds, 10, "seconds of each attack")
  main.measure do |options|
    parts, seconds, rounds = options.values_at(:parts, :seconds, :rounds)
    found = {}
    if parts.include?("floods")
      found.update(main.show(Bench::Attacks.new(only: options[:only], seconds: seconds), "attacks on HTTP/2"))
    end
    if parts.include?("pieces")
      found[:pieces] = Bench.pick(Bench::Pieces::ROWS, options[:rows], "row").map do |row|
        pieces = Bench::Pieces.new(row: row, servers: options[:servers], rounds: rounds, seconds: seconds)
        main.show(pieces, row.title)
      end
    end
    if parts.include?("streams")
      streams = Bench::Streams.new(rounds: rounds, seconds: seconds)
      found[:streams] = main.show(streams, streams.title)
    end
    found
  end
end
