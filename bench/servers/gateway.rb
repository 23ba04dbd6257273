# frozen_string_literal: true

module Bench
  # A gateway that hands on streams of events, and the clients that read them.
  module Gateway
    APP = File.join(DIR, "apps", "relay.ru")
    # For a Field: programs of node, Bun and Go that do the same.
    PROGRAMS = { "node" => { script: "relay_node.mjs" }, "bun" => { script: "relay_bun.mjs" },
                 "go" => { source: "relay.go" } }.map { |name, options| [name, options, name] }.freeze
    READY = ->(port) { Probe.get(port: port, path: "/ready")&.body == "ready" }
    GRACE = 20 # seconds beyond the time that the streams need

    module_function

    # @param port [Integer]
    # @param streams [Integer] at once
    # @param events [Integer] of a stream
    # @param pace [Integer] milliseconds between two events
    # @param cpu [Integer, nil] to pin the clients to
    # @return [Hash{Symbol => Integer}] figures of clients/streams.c
    # @raise [Failed] without any
    def ask(port, streams:, events:, pace:, cpu: nil)
      words = [port, streams, events, pace].map(&:to_s)
      prefix = cpu ? ["taskset", "-c", cpu.to_s] : []
      Client.figures("streams", *words, limit: (events * pace / 1000.0) + GRACE, prefix: prefix)
    end
  end
end
