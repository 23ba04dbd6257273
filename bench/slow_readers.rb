# frozen_string_literal: true

# Clients that ask for a large body and do not read it: memory for each of them. See README.md.
# Usage: ruby bench/slow_readers.rb --help

require "io/wait"
require "socket"
require_relative "support/bench"
require_relative "servers/catalog"

module Bench
  # Measures one server after the other: its resident set before and after the clients have come.
  class SlowReaders
    APP = File.join(DIR, "apps", "big.ru")
    KINDS = %w[shared fresh pieces].freeze
    SPARE_FILES = 500
    SETTLE = 1 # seconds between the last client's first bytes and the reading

    def initialize(only:, clients:, size:)
      @servers = Catalog.pick(only)
      @limit = Files.raise_limit
      @count = [clients, @limit - SPARE_FILES].min
      @size = size
      @found = {}
      @absent = {}
    end

    # @return [Integer] clients at once
    attr_reader :count

    def run
      @servers.each do |server|
        @found[server.name] = KINDS.to_h { |kind| [kind, measure(server, kind)] }
      rescue Unavailable, Failed => e
        @absent[server.name] = e.message
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["bytes per client", "one frozen String", "a String each", "pieces of 64 KB"])
      @found.each { |name, bytes| table.add(name, *bytes.values) }
      @absent.each { |name, reason| table.note(name, reason) }
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h = { clients: @count, body: @size, bytes_per_client: @found, absent: @absent }

    private

    # A process of its own for each kind, because used memory is not given back.
    def measure(server, kind)
      server.prepare
      port = Ports.free
      child = Child.new(server.command(port: port, app: APP), name: "slow-#{server.name}", files: @limit,
                                                              env: server.env(size: 12).merge("SIZE" => @size.to_s))
      child.wait_ready(seconds: 20) { Probe.get(port: port, seconds: 1) }
      growth(port, kind, child)
    ensure
      child&.stop
    end

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
  main.option(:only, %w[abaca], "these servers")
  main.option(:clients, 1000, "clients at once")
  main.option(:size, 10_000_000, "bytes of the body")
  main.measure do |options|
    readers = Bench::SlowReaders.new(**options)
    main.show(readers, "#{readers.count} clients that do not read a body of #{options[:size]} bytes")
  end
end
