# frozen_string_literal: true

# Clients that send three bytes of a body, or do not read: what do fresh requests wait beside them? See README.md.
# Usage: ruby bench/slow_clients.rb --help

require "socket"
require_relative "support/bench"
require_relative "servers/catalog"

module Bench
  # Measures each mode beside each kind of slow client: a server of its own for every cell.
  class SlowClients
    APP = File.join(DIR, "apps", "slow.ru")
    MODES = { "fiber" => [], "thread" => %w[--mode thread], "hybrid" => %w[--mode hybrid],
              "guest" => %w[--fiber-scheduler PlainScheduler] }.freeze
    POST = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    KINDS = {
      "none" => nil, "length" => "#{POST}Content-Length: 50\r\n\r\nabc",
      "chunks" => "#{POST}Transfer-Encoding: chunked\r\n\r\n32\r\nabc",
      "long" => "#{POST}Content-Length: 100000\r\n\r\nabc",
      "longer" => "#{POST}Content-Length: 1000000\r\n\r\nabc",
      "half" => "#{POST}Content-Length: 140000\r\n\r\n#{'a' * 70_000}",
      "unread" => "GET /pieces HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    }.freeze
    ROUND = 10 # seconds, after which the slow clients leave and come again
    PAUSE = 0.01 # seconds between two fresh requests
    SPARE_FILES = 500
    PATIENCE = 20 # seconds for one fresh request

    def initialize(modes:, kinds:, clients:, seconds:)
      @modes = MODES.slice(*modes)
      @kinds = KINDS.slice(*kinds)
      @limit = Files.raise_limit
      @count = [clients, @limit - SPARE_FILES].min
      @seconds = seconds
      @found = {}
    end

    # @return [Integer] slow clients at once
    attr_reader :count

    def run
      server, = Catalog.pick(%w[abaca])
      server.prepare
      @modes.each do |mode, options|
        @found[mode] = @kinds.to_h { |kind, bytes| [kind, measure(server, mode, options, bytes)] }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["mode", "slow clients", "fresh", "not 200", "p50 ms", "p99 ms", "max ms", "bytes per client"])
      @found.each do |mode, cells|
        cells.each { |kind, cell| table.add(mode, kind, *cell.values) }
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h = { clients: @count, seconds: @seconds, modes: @found }

    private

    def measure(server, mode, options, bytes)
      port = Ports.free
      child = Child.new(server.command(port: port, app: APP, options: options), name: "slow-clients-#{mode}",
                                                                                files: @limit)
      child.wait_ready(seconds: 20) { Probe.get(port: port, seconds: 1) }
      50.times { fresh(port) }
      before = child.resident
      slow = bytes && fork { come_and_go(port, bytes) }
      figures(*ask(port, child), before)
    ensure
      end_of(slow)
      child&.stop
    end

    # In a process of its own, so that it takes no time from the measurement.
    def come_and_go(port, bytes)
      loop do
        sockets = Array.new(@count) { come(port, bytes) }
        sleep ROUND
        sockets.each(&:close)
      end
    end

    def come(port, bytes)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:SOCKET, :RCVBUF, 16_384)
      socket.connect(Addrinfo.tcp("127.0.0.1", port))
      socket.write(bytes)
      socket
    end

    def ask(port, child)
      answers = []
      most = 0
      stop = Clock.now + @seconds
      while Clock.now < stop
        answers << fresh(port)
        most = [most, child.resident].max
        sleep PAUSE
      end
      [answers, most]
    end

    # @return [Array(Float, Boolean)] seconds from the connect to the end, and whether it was a 200
    def fresh(port)
      begun = Clock.now
      response = Probe.get(port: port, seconds: PATIENCE)
      [Clock.now - begun, response&.status == 200]
    rescue SystemCallError, IOError, Failed
      [Clock.now - begun, false]
    end

    def figures(answers, most, before)
      times = answers.map { |seconds, _| (seconds * 1000).round(2) }
      { fresh: answers.size, failed: answers.count { |_, good| !good }, p50: Statistics.percentile(times, 50),
        p99: Statistics.percentile(times, 99), max: times.max, bytes: [(most - before) / @count, 0].max }
    end

    def end_of(pid)
      return unless pid

      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end
end

Bench.main("slow_clients") do |main|
  main.quick("100 clients for 2 s in each cell", clients: 100, seconds: 2)
  main.option(:modes, Bench::SlowClients::MODES.keys, "some of these")
  main.option(:kinds, Bench::SlowClients::KINDS.keys, "some of these")
  main.option(:clients, 1100, "slow clients at once")
  main.option(:seconds, 60, "for each cell")
  main.measure do |options|
    bench = Bench::SlowClients.new(**options)
    main.show(bench, "fresh requests beside #{bench.count} slow clients, #{options[:seconds]} s each")
  end
end
