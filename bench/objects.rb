# frozen_string_literal: true

# Ruby objects that a server allocates for each hello request, the app's own included. See README.md.
# Usage: ruby bench/objects.rb --help

require "socket"
require_relative "support/bench"
require_relative "servers/field"
require_relative "servers/load"

module Bench
  # Reads the process' own counter (GC.stat) before and after many requests on one connection.
  class Objects
    APP = File.join(DIR, "apps", "counted.ru")
    CHUNK = 500 # requests on one connection: some servers end one after a thousand
    KINDS = { "wrk's request" => [], "a browser's (9 fields)" => Loads::BROWSER }.freeze

    def initialize(requests:, rounds:, **options)
      @field = Field.new(name: "objects", **options)
      @rounds = rounds
      @chunks = [requests / CHUNK, 1].max
    end

    # @return [Integer] requests of each kind
    def requests = @chunks * CHUNK

    def run
      @field.start(app: APP, right: ->(port) { Probe.get(port: port)&.body == "Hello World\n" })
      @field.each { |entry| ask(entry.port, []) } # caches, pools, the first connection
      @field.rounds(@rounds) { |entry| KINDS.transform_values { |fields| count(entry.port, fields) } }
    ensure
      @field.stop
    end

    # @return [String] a table
    def render
      figures = KINDS.keys.to_h { |kind| [kind.to_sym, ->(counts) { counts.fetch(kind) }] }
      @field.render(*KINDS.keys, **figures) { |rounds| medians(rounds).values }
    end

    # @return [Hash] for the results file
    def to_h
      { requests: requests, objects_per_request: @field.turns.transform_values { |rounds| medians(rounds) },
        **@field.to_h }
    end

    private

    def medians(rounds)
      KINDS.to_h { |kind, _| [kind, Statistics.median(rounds.map { |counts| counts.fetch(kind) }).round(2)] }
    end

    # The cost of reading the counter is found by reading it twice, and subtracted.
    def count(port, fields)
      first = counter(port)
      second = counter(port)
      @chunks.times { ask(port, fields) }
      ((counter(port) - second - (second - first)) / requests.to_f).round(2)
    end

    def counter(port)
      body = Probe.get(port: port, path: "/gc")&.body.to_s
      raise Failed, "no counter" unless body.match?(/\A\d+\z/)

      body.to_i
    end

    def ask(port, fields)
      socket = TCPSocket.new("127.0.0.1", port)
      request = ["GET / HTTP/1.1", "Host: 127.0.0.1:#{port}", *fields, "", ""].join("\r\n")
      Timeout.timeout(30) { CHUNK.times { exchange(socket, request) } }
    rescue SystemCallError, EOFError, Timeout::Error => e
      raise Failed, "requests on one connection: #{e.message}"
    ensure
      socket&.close
    end

    def exchange(socket, request)
      socket.write(request)
      answer = +"".b
      answer << socket.readpartial(4096) until whole?(answer)
    end

    # The body arrives as it is, as a single chunk, or compressed, so the framing is checked.
    def whole?(answer)
      head, body = answer.split("\r\n\r\n", 2)
      return false unless body

      length = head[/^content-length:\s*(\d+)/i, 1]
      length ? body.bytesize >= length.to_i : body.end_with?("0\r\n\r\n")
    end
  end
end

Bench.main("objects") do |main|
  main.quick("one round of 1,000", requests: 1000, rounds: 1)
  main.option(:only, %w[abaca puma iodine itsi falcon], "these servers")
  main.option(:requests, 10_000, "requests of each kind and round")
  main.option(:rounds, 3, "interleaved rounds")
  main.ruby
  main.against
  main.measure do |options|
    objects = Bench::Objects.new(**options)
    main.show(objects, "#{objects.requests} requests of each kind")
  end
end
