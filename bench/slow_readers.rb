# frozen_string_literal: true

# Clients that ask for a large body and do not read it: memory for each of them. See README.md.
# Usage: ruby bench/slow_readers.rb --help

require "io/wait"
require "socket"
require_relative "support/bench"
require_relative "servers/field"

module Bench
  # Measures one server after the other: its resident set before and after the clients have come.
  class SlowReaders
    APP = File.join(DIR, "apps", "big.ru")
    KINDS = %w[shared fresh pieces].freeze
    SPARE_FILES = 500
    SETTLE = 1 # seconds between the last client's first bytes and the reading

    def initialize(only:, clients:, size:)
      @field = Field.new(only: only, name: "slow-readers")
      @count = [clients, Files.raise_limit - SPARE_FILES].min
      @size = size
    end

    # @return [Integer] clients at once
    attr_reader :count

    # A process of its own for each kind, because used memory is not given back.
    def run
      @field.rounds(1) do |entry|
        KINDS.to_h do |kind|
          [kind, @field.alone(entry, app: APP, env: { "SIZE" => @size.to_s }) { growth(entry.port, kind, entry.child) }]
        end
      end
    end

    # @return [String] a table of bytes per client
    def render
      @field.render("one frozen String", "a String each", "pieces of 64 KB") { |turns| turns.first.values }
    end

    # @return [Hash] for the results file
    def to_h
      { clients: @count, body: @size, bytes_per_client: @field.turns.transform_values(&:first), absent: @field.absent }
    end

    private

    def growth(port, kind, child)
      settled(port, kind, 20).each(&:close) # pools and heap
      before = child.resident
      sockets = settled(port, kind, @count)
      ((child.resident - before) / @count).tap { check(sockets) }
    ensure
      sockets&.each(&:close)
    end

    def settled(port, kind, count)
      sockets = Array.new(count) { ask(port, kind) }
      sockets.each { |socket| first_bytes(socket) }
      sleep SETTLE
      sockets
    end

    # A small window, so that the body waits in the server and not in the kernel.
    def ask(port, kind)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:SOCKET, :RCVBUF, 8192)
      socket.connect(Addrinfo.tcp("127.0.0.1", port))
      socket.write("GET /#{kind} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
      socket
    end

    def first_bytes(socket)
      socket.wait_readable(20) or raise Failed, "no answer to one of #{@count} clients"
      raise Failed, "an answer that is not 200" unless socket.readpartial(512).start_with?("HTTP/1.1 200")
    end

    def check(sockets)
      gone = sockets.count { |socket| socket.getsockopt(:TCP, :INFO).data.getbyte(0) != 1 } # TCP_ESTABLISHED
      raise Failed, "#{gone} of #{@count} clients were dropped" if gone.positive?
    end
  end
end

Bench.main("slow_readers") do |main|
  main.quick("100 clients", clients: 100)
  main.option(:only, %w[abaca], "these servers")
  main.option(:clients, 1000, "clients at once")
  main.option(:size, 10_000_000, "bytes of the body")
  main.measure do |options|
    readers = Bench::SlowReaders.new(**options)
    main.show(readers, "#{readers.count} clients that do not read a body of #{options[:size]} bytes")
  end
end
