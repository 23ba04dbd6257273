# frozen_string_literal: true

# CPU time and memory of receiving request bodies that an app only counts. See README.md.
# Usage: ruby bench/upload.rb --help

require "socket"
require_relative "support/bench"
require_relative "servers/catalog"

module Bench
  # Uploads in interleaved rounds, one client at a time.
  class Upload
    APP = File.join(DIR, "apps", "upload.ru")
    PIECE = 64 * 1024
    TINY = 10_000 # chunks of one byte in a request: no server's guard against them triggers
    DEADLINE = 120 # seconds for one turn
    Kind = Struct.new(:name, :unit, :divisor, keyword_init: true)
    Turn = Struct.new(:cpu, :wall, :before, :peak, keyword_init: true)

    # @param only [Array<String>] servers
    # @param megabytes [Integer] of the long bodies
    # @param posts [Integer] requests of the short ones
    def initialize(only:, rounds:, megabytes:, posts:)
      @servers = Catalog.pick(only)
      @rounds = rounds
      @megabytes = megabytes
      @posts = posts
      @turns = Hash.new { |hash, key| hash[key] = [] }
      @absent = {}
      @failures = {}
    end

    def run
      running = @servers.filter_map { |server| start(server) }
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        (round.even? ? running : running.reverse).each { |entry| kinds.each { |kind| take_turn(entry, kind) } }
      end
    ensure
      running&.each { |entry| entry[:child].stop }
    end

    # @return [String] a table
    def render
      table = Table.new(["server", *kinds.map { |kind| "#{kind.name}, #{kind.unit}" }, "RSS MB", "peak MB"])
      @servers.each do |server|
        cells = kinds.map { |kind| figure(server.name, kind) }
        table.add(server.name, *cells, *memory(server.name)) if cells.any?
      end
      @absent.each { |name, reason| table.note(name, reason) }
      @failures.each { |(name, kind), reason| table.note("#{name}, #{kind}", reason) }
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h
      { rounds: @rounds, megabytes: @megabytes, posts: @posts, absent: @absent,
        failures: @failures.transform_keys { |key| key.join(" ") },
        turns: @turns.to_h { |key, turns| [key.join(" "), turns.map(&:to_h)] } }
    end

    private

    def kinds
      @kinds ||= [Kind.new(name: "length", unit: "s/GB", divisor: @megabytes / 1024.0 * 1e9),
                  Kind.new(name: "chunked", unit: "s/GB", divisor: @megabytes / 1024.0 * 1e9),
                  Kind.new(name: "100 bytes", unit: "µs", divisor: @posts * 1e3),
                  Kind.new(name: "10 KB", unit: "µs", divisor: @posts * 1e3),
                  Kind.new(name: "one-byte chunk", unit: "µs", divisor: tiny_requests * TINY * 1e3)]
    end

    def tiny_requests = [@posts / 100, 1].max

    def start(server)
      server.prepare
      port = Ports.free
      child = Child.new(server.command(port: port, app: APP), name: "upload-#{server.name}", env: server.env(size: 12),
                                                              cpu: 0)
      child.wait_ready(seconds: 20) { Probe.get(port: port, seconds: 1) }
      post(port, 50, "x" * 10_000)
      { name: server.name, port: port, child: child }
    rescue Unavailable, Failed => e
      @absent[server.name] = e.message
      nil
    end

    def take_turn(entry, kind)
      key = [entry[:name], kind.name]
      return if @failures.key?(key)

      before = entry[:child].resident
      meter = CpuMeter.new(entry[:child].pid).start
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Timeout.timeout(DEADLINE) { upload(entry[:port], kind.name) }
      wall = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
      @turns[key] << Turn.new(cpu: meter.stop.nanoseconds / kind.divisor, wall: wall, before: before,
                              peak: entry[:child].peak_resident)
    rescue SystemCallError, EOFError, Timeout::Error, Failed => e
      @failures[key] = "#{e.class}: #{e.message}"
    end

    def upload(port, kind)
      case kind
      when "length" then send_long(port, "Content-Length: #{@megabytes << 20}", "x" * PIECE, "")
      when "chunked"
        send_long(port, "Transfer-Encoding: chunked", "#{PIECE.to_s(16)}\r\n#{"x" * PIECE}\r\n", "0\r\n\r\n")
      when "100 bytes" then post(port, @posts, "x" * 100)
      when "10 KB" then post(port, @posts, "x" * 10_240)
      else post_chunks(port)
      end
    end

    # One body of @megabytes.
    def send_long(port, field, piece, ending)
      talk(port) do |socket|
        socket.write("POST / HTTP/1.1\r\nHost: a.test\r\n#{field}\r\n\r\n")
        (@megabytes << 4).times { socket.write(piece) }
        socket.write(ending)
        expect(socket, @megabytes << 20)
      end
    end

    # Requests one after the other, 500 on a connection.
    def post(port, count, body)
      request = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}"
      count.fdiv(500).ceil.times do
        talk(port) { |socket| [count, 500].min.times { socket.write(request) && expect(socket, body.bytesize) } }
      end
    end

    def post_chunks(port)
      body = "#{"1\r\nx\r\n" * TINY}0\r\n\r\n"
      talk(port) do |socket|
        tiny_requests.times do
          socket.write("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n#{body}")
          expect(socket, TINY)
        end
      end
    end

    def talk(port)
      socket = TCPSocket.new("127.0.0.1", port)
      socket.setsockopt(:TCP, :NODELAY, 1)
      yield socket
    ensure
      socket&.close
    end

    # The app's answer, which is the number of bytes. Some servers send it in chunks.
    def expect(socket, size)
      answer = +"".b
      answer << socket.readpartial(4096) until answer.match?(/\r\n\r\n.*\d\z|\r\n\r\n.*0\r\n\r\n\z/mn)
      head, content = answer.split("\r\n\r\n", 2)
      raise Failed, "answered #{head.lines.first.to_s.strip}" unless head.start_with?("HTTP/1.1 200") &&
                                                                     content.include?(size.to_s)
    end

    def figure(name, kind)
      turns = @turns[[name, kind.name]]
      return if turns.empty?

      Statistics.median(turns.map(&:cpu)).round(kind.unit == "s/GB" ? 2 : 3)
    end

    # Of the first two long bodies: before them, and the highest.
    def memory(name)
      turns = %w[length chunked].filter_map { |kind| @turns[[name, kind]].first }
      return [nil, nil] if turns.empty?

      [turns.first.before, turns.map(&:peak).max].map { |bytes| bytes.fdiv(1 << 20).round(1) }
    end
  end
end

Bench.main("upload") do |main|
  main.option(:only, %w[abaca puma iodine itsi falcon], "these servers")
  main.option(:rounds, 3, "turns of each server")
  main.option(:megabytes, 1024, "of a long body")
  main.option(:posts, 5000, "short requests in a turn")
  main.measure do |options|
    main.show(Bench::Upload.new(**options), "CPU of the server; bodies of #{options[:megabytes]} MB")
  end
end
