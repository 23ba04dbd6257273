# frozen_string_literal: true

module Bench
  # Full handshakes against a server; the figures are those of Wrk, where a request is a handshake.
  class Handshakes
    LIBRARIES = %w[-lssl -lcrypto].freeze

    # @param cpu [Integer, nil] the CPU to pin to
    # @param nice [Integer] of the client
    # @raise [Unavailable] when it does not compile
    def initialize(cpu: nil, nice: 0)
      Compiler.program("clients/handshakes.c", *LIBRARIES)
      @prefix = ["nice", "-n", nice.to_s, *(["taskset", "-c", cpu.to_s] if cpu)]
    end

    # @param connections [Integer] handshakes at once
    # @param seconds [Integer]
    # @param rate [Integer] handshakes a second; 0 for as many as the server can do
    # @return [Wrk::Figures]
    # @raise [Failed] when too many failed
    def run(port:, connections:, seconds:, rate: 0, **)
      found = Client.figures("handshakes", port.to_s, connections.to_s, seconds.to_s, rate.to_s,
                             limit: seconds + Wrk::GRACE, prefix: @prefix, libraries: LIBRARIES)
      done, failed = found.values_at(:done, :failed)
      raise Failed, "#{failed} of #{done + failed} handshakes failed" if failed > done * Wrk::ERRORS_MAX || done.zero?

      Wrk::Figures.new(requests: done, microseconds: found[:microseconds], mean: nil, p50: found[:p50],
                       p99: found[:p99], connect: failed, read: 0, write: 0, status: 0, timeout: found[:late])
    end
  end
end
