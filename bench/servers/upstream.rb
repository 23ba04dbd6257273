# frozen_string_literal: true

module Bench
  # A server that waits before each answer, for apps that ask another one.
  module Upstream
    module_function

    # @param milliseconds [Integer] that it waits
    # @param cpu [Integer, nil] to pin to
    # @return [Hash] the variable that tells apps its port
    def start(milliseconds, cpu: nil)
      port = Ports.free
      command = [Compiler.program("servers/upstream_epoll.c"), port.to_s, milliseconds.to_s]
      child = Child.new(command, name: "upstream", cpu: cpu, files: Files.raise_limit)
      child.wait_ready(seconds: 5) { Probe.get(port: port, path: "/ready", seconds: 1) }
      { "UPSTREAM" => port.to_s }
    end
  end
end
