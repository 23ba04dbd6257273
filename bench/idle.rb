# frozen_string_literal: true

# 10,000 idle keep-alive connections beside 50 active ones: latency and memory. See README.md.
# Usage: ruby bench/idle.rb --help

require "io/wait"
require "socket"
require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Idle connections, each of which has had one request answered and stays open. They come from
  # several loopback addresses, so that the client's ports suffice.
  class Crowd
    PER_ADDRESS = 5000
    IP_BIND_ADDRESS_NO_PORT = 24 # Linux; Ruby has no name for it
    REQUEST = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def initialize(port)
      @port = port
      @sockets = []
    end

    # Opens connections until there are `count`.
    # @raise [Failed] when the server does not answer one of them
    def grow(count)
      @sockets << open_one(@sockets.size) while @sockets.size < count
    end

    # @return [Integer] how many the server has not closed
    def alive
      @sockets.count { |socket| socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false) == :wait_readable }
    end

    def close
      @sockets.each(&:close)
      @sockets.clear
    end

    private

    def open_one(index)
      socket = connect("127.0.0.#{2 + (index / PER_ADDRESS)}")
      socket.write(REQUEST)
      answer = +"".b
      answer << read_some(socket) until answer.end_with?("Hello World\n")
      socket
    rescue SystemCallError, EOFError => e
      raise Failed, "connection #{index + 1}: #{e.message}"
    end

    # The port is chosen when connecting: bind's search for a free one takes longer and longer.
    def connect(source)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:IP, IP_BIND_ADDRESS_NO_PORT, 1)
      socket.bind(Addrinfo.tcp(source, 0))
      socket.connect(Addrinfo.tcp("127.0.0.1", @port))
      socket
    rescue SystemCallError
      socket&.close
      raise
    end

    def read_some(socket)
      socket.wait_readable(10) or raise Failed, "no answer to a connection that is to stay idle"
      socket.readpartial(4096)
    end
  end

  # Measures one server after the other: the active connections alone and beside the idle ones, in
  # turns, and the memory that the idle ones take.
  class Idle
    ACTIVE = 50
    SPARE_FILES = 500
    Turn = Struct.new(:alone_p99, :beside_p99, :alone_p50, :beside_p50, :alone_rate, :beside_rate, :bytes, :alive,
                      keyword_init: true)

    attr_reader :count

    def initialize(only:, connections:, rounds:, seconds:)
      @field = Field.new(only: only, name: "idle", cpu: 0)
      @count = [connections, Files.raise_limit - SPARE_FILES].min
      @rounds = rounds
      @seconds = seconds
      @wrk = Wrk.new(cpu: 1)
    end

    def run
      @field.each do |entry|
        warn "#{entry.label}: #{@count} idle connections, #{@rounds} rounds"
        @field.alone(entry) { measure(entry) }
      end
    end

    # @return [String] a table
    def render
      @field.render("bytes/idle", "still open", "p50 alone/beside ms", "p99 alone/beside ms", "p99 ratio") do |turns|
        cells(turns)
      end
    end

    # @return [Hash] for the results file
    def to_h = { idle: @count, active: ACTIVE, **@field.to_h }

    private

    # Memory is the maximum of all rounds: the later ones reuse what the first one has given back.
    def cells(turns)
      pairs = [%i[alone_p50 beside_p50], %i[alone_p99 beside_p99]].map do |pair|
        pair.map { |field| (Statistics.median(turns.map(&field)) / 1000.0).round(2) }
      end
      ratio = pairs.last.last / pairs.last.first
      [turns.map(&:bytes).max, turns.map(&:alive).min, *pairs.map { |pair| pair.join("/") }, ratio.round(2)]
    end

    def measure(entry)
      @wrk.run(port: entry.port, connections: 256, seconds: 2) # the heap grows now, not later
      @rounds.times { @field.turns[entry.label] << turn(entry.port, entry.child) }
    end

    def turn(port, child)
      alone = @wrk.run(port: port, connections: ACTIVE, seconds: @seconds)
      crowd = Crowd.new(port)
      before = child.resident
      crowd.grow(@count)
      bytes = (child.resident - before) / @count
      beside = @wrk.run(port: port, connections: ACTIVE, seconds: @seconds)
      Turn.new(alone_p99: alone.p99, beside_p99: beside.p99, alone_p50: alone.p50, beside_p50: beside.p50,
               alone_rate: alone.per_second, beside_rate: beside.per_second, bytes: bytes, alive: crowd.alive)
    ensure
      crowd&.close
    end
  end
end

Bench.main("idle") do |main|
  main.option(:only, %w[limit abaca puma], "these servers")
  main.option(:connections, 10_000, "idle connections")
  main.option(:rounds, 3, "rounds for each server")
  main.option(:seconds, 3, "seconds of each load")
  main.measure do |options|
    idle = Bench::Idle.new(**options)
    main.show(idle, "#{idle.count} idle keep-alive connections beside #{Bench::Idle::ACTIVE} active ones")
  end
end
