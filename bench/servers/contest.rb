# frozen_string_literal: true

module Bench
  # Runs every load against every server in interleaved rounds, and keeps what each round gave.
  #
  # In a round each server has its turn once, and every second round goes the other way, so that a
  # disturbance of the machine does not fall on the same server each time.
  class Contest
    # One turn of one server.
    Turn = Struct.new(:cpu, :per_second, :p50, :p99, :requests, :errors, :threads_lost, keyword_init: true)

    START = 20 # seconds that a server may take until it answers
    SETTLE = 0.1 # seconds between the client's end and the reading, for what is still on its way

    # @return [Hash] server name => reason, for those that could not take part at all
    attr_reader :absent
    # @return [Hash] [server name, load name] => reason, for turns that failed
    attr_reader :failures
    # @return [Hash] [server name, load name] => Array<Turn>
    attr_reader :turns
    # @return [Hash] server name => bytes of its response head
    attr_reader :heads
    # @return [Hash] [server name, load name] => Array<Float>, ms of each batch on one connection
    attr_reader :batches

    # @param rounds [Integer]
    # @param seconds [Integer] of each turn
    # @param pinned [Boolean] server on CPU 0 and client on CPU 1
    # @param progress [#puts] where to say what is going on
    def initialize(servers:, loads:, rounds:, seconds:, pinned: true, progress: $stderr)
      @servers = servers
      @loads = loads
      @rounds = rounds
      @seconds = seconds
      @pinned = pinned
      @progress = progress
      @clients = Loads.clients(loads, cpu: pinned ? 1 : nil)
      @absent = {}
      @failures = {}
      @heads = {}
      @batches = {}
      @turns = Hash.new { |hash, key| hash[key] = [] }
      @running = {}
    end

    # Measures everything. Servers are started once for each size of the body, protocol and certificate.
    def run
      @servers = @servers.select { |server| prepared?(server) }
      @loads.group_by(&:setting).each_value do |loads|
        @servers.each { |server| start(server, loads.first) if server.speaks?(loads.first.protocol) }
        loads.each { |load| run_load(load) }
      ensure
        @running.each_value { |entry| entry[:child].stop }
        @running.clear
      end
    end

    private

    def prepared?(server)
      server.prepare
      true
    rescue Unavailable => e
      missing(server, e.message)
      false
    end

    def start(server, load)
      port = Ports.free
      size = load.body_size
      child = Child.new(server.command(port: port, size: size, **load.terms), env: server.env(size: size),
                                                                              name: log_name(server, load),
                                                                              cpu: @pinned ? 0 : nil)
      @running[server] = { child: child, port: port }
      check(server, load)
      warm_up(port, load)
    rescue Failed => e
      @running.delete(server)
      child&.stop
      left(server, load).each { |one| fail_at(server, one, "does not start: #{e.message}") }
    end

    # Loads for which a server would be started in the same way, and that have not been measured.
    def left(server, load)
      @loads.select { |one| one.setting == load.setting }.reject do |one|
        [@turns, @failures].any? { |known| known.key?([server.name, one.name]) }
      end
    end

    def missing(server, reason)
      @absent[server.name] ||= reason
      Bench.account.absent("servers", server.name, reason)
    end

    def log_name(server, load) = "#{server.name.tr(" ", "-")}-#{load.setting.compact.join("-")}"

    def warm_up(port, load)
      @clients[load.client].run(port: port, connections: 16, seconds: 1, tls: load.tls?)
    rescue H2load::Stuck
      nil # it is warm
    end

    # Waits for the right answer.
    def check(server, load)
      child, port = @running[server].values_at(:child, :port)
      if load.http2?
        child.wait_ready(seconds: START) { load.right?(port) }
      else
        child.wait_ready(seconds: START) { Probe.get(port: port, seconds: 1, tls: load.tls?) }
        head = Probe.check(port: port, body: load.body, tls: load.tls?).head_bytes
        @heads[server.name] ||= head
      end
    end

    def run_load(load)
      @rounds.times do |round|
        @progress.puts "#{load.title}: round #{round + 1} of #{@rounds}"
        order = round.even? ? @servers : @servers.reverse
        order.each { |server| take_turn(server, load) }
      end
      @servers.each { |server| time_batches(server, load) } if load.depth > 1
    end

    # A server that failed is stopped, sits out the rest of the load, and starts afresh for the next.
    def take_turn(server, load)
      return if @failures.key?([server.name, load.name]) || @absent.key?(server.name)
      return unless server.speaks?(load.protocol)

      start(server, load) unless @running.key?(server)
      entry = @running[server] or return
      @turns[[server.name, load.name]] << Bench.account.turn(load.name, server.name) { measure(entry, load) }
    rescue Failed => e
      child = @running.delete(server)[:child]
      fail_at(server, load, child.running? ? e.message : "died: #{child.last_words}")
      child.stop
    end

    def fail_at(server, load, reason)
      @failures[[server.name, load.name]] = reason
      Bench.account.absent(load.name, server.name, reason)
    end

    # Latency of pipelines, with nobody else on the server.
    def time_batches(server, load)
      port = @running.dig(server, :port) or return
      length = Probe.answer_bytes(port: port, body: load.body)
      @batches[[server.name, load.name]] = Probe.pipeline(port: port, depth: load.depth, length: length)
    rescue Failed => e
      fail_at(server, load, e.message)
    end

    def measure(entry, load)
      meter = nil
      figures = H2load.patiently do
        meter = CpuMeter.new(entry[:child].pid).start
        @clients[load.client].run(port: entry[:port], connections: load.connections, seconds: @seconds,
                                  headers: load.headers, depth: load.depth, tls: load.tls?)
      end
      sleep SETTLE
      used = meter.stop
      Turn.new(cpu: used.nanoseconds / 1000.0 / figures.requests, per_second: figures.per_second, p50: figures.p50,
               p99: figures.p99, requests: figures.requests, errors: figures.errors, threads_lost: used.lost)
    end
  end
end
