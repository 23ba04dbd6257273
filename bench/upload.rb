# frozen_string_literal: true

# CPU time and memory of receiving request bodies that an app only counts. See README.md.
# Usage: ruby bench/upload.rb --help

require "socket"
require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Uploads in interleaved rounds, one client at a time.
  class Upload
    APP = File.join(DIR, "apps", "upload.ru")
    PIECE = 64 * 1024
    TINY = 10_000 # chunks of one byte in a request: no server's guard against them triggers
    Kind = Struct.new(:name, :unit, :divisor, keyword_init: true)
    Turn = Struct.new(:cpu, :wall, :before, :peak, keyword_init: true)

    # @param only [Array<String>] servers
    # @param ruby [Ruby] of the servers
    # @param megabytes [Integer] of the long bodies
    # @param posts [Integer] requests of the short ones
    def initialize(only:, ruby:, rounds:, megabytes:, posts:)
      @field = Field.new(only: only, ruby: ruby, name: "upload", cpu: 0)
      @rounds = rounds
      @megabytes = megabytes
      @posts = posts
      @failures = {}
    end

    def run
      @field.start(app: APP)
      @field.each { |entry| warm_up(entry.port) }
      @field.rounds(@rounds) { |entry| kinds.to_h { |kind| [kind.name, turn(entry, kind)] } }
    ensure
      @field.stop
    end

    # @return [String] a table
    def render
      table = @field.render(*kinds.map { |kind| "#{kind.name}, #{kind.unit}" }, "RSS MB", "peak MB") do |rounds|
        [*kinds.map { |kind| figure(rounds, kind) }, *memory(rounds)]
      end
      [table, *@failures.map { |(name, kind), reason| "#{name}, #{kind}: #{reason}\n" }].join
    end

    # @return [Hash] for the results file
    def to_h = { failures: @failures.transform_keys { |key| key.join(" ") }, **@field.to_h }

    private

    def kinds
      @kinds ||= [Kind.new(name: "length", unit: "s/GB", divisor: @megabytes / 1024.0 * 1e9),
                  Kind.new(name: "chunked", unit: "s/GB", divisor: @megabytes / 1024.0 * 1e9),
                  Kind.new(name: "100 bytes", unit: "µs", divisor: @posts * 1e3),
                  Kind.new(name: "10 KB", unit: "µs", divisor: @posts * 1e3),
                  Kind.new(name: "one-byte chunk", unit: "µs", divisor: tiny_requests * TINY * 1e3)]
    end

    def tiny_requests = [@posts / 100, 1].max

    # A server may answer none of them.
    def warm_up(port)
      in_time { post(port, 50, "x" * 10_000) }
    rescue SystemCallError, EOFError, Timeout::Error => e
      raise Failed, "warm-up: #{e.message}"
    end

    # None of them takes 20 ms for a MB; one that hangs costs its row alone.
    def in_time(&) = Timeout.timeout(10 + (@megabytes / 50.0), &)

    # nil where the server refuses such a body, or has refused it before.
    def turn(entry, kind)
      key = [entry.label, kind.name]
      return if @failures.key?(key)

      before = entry.child.resident
      meter = CpuMeter.new(entry.child.pid).start
      started = Clock.now
      Bench.account.client { in_time { upload(entry.port, kind.name) } }
      wall = Clock.now - started
      Turn.new(cpu: meter.stop.nanoseconds / kind.divisor, wall: wall, before: before,
               peak: entry.child.peak_resident)
    rescue SystemCallError, EOFError, Timeout::Error, Failed => e
      @failures[key] = "#{e.class}: #{e.message}"
      Bench.account.absent(kind.name, entry.label, @failures[key])
      nil
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

    def figure(rounds, kind)
      turns = rounds.filter_map { |round| round[kind.name] }
      Statistics.median(turns.map(&:cpu)).round(kind.unit == "s/GB" ? 2 : 3) unless turns.empty?
    end

    # Of the first two long bodies: before them, and the highest.
    def memory(rounds)
      turns = rounds.first.values_at("length", "chunked").compact
      return [nil, nil] if turns.empty?

      [turns.first.before, turns.map(&:peak).max].map { |bytes| bytes.fdiv(1 << 20).round(1) }
    end
  end
end

Bench.main("upload") do |main|
  main.quick("one round of 64 MB and 500 posts", rounds: 1, megabytes: 64, posts: 500)
  main.option(:only, %w[abaca puma iodine itsi falcon], "these servers")
  main.option(:rounds, 3, "turns of each server")
  main.option(:megabytes, 1024, "of a long body")
  main.option(:posts, 5000, "short requests in a turn")
  main.ruby
  main.measure do |options|
    main.show(Bench::Upload.new(**options), "CPU of the server; bodies of #{options[:megabytes]} MB")
  end
end
