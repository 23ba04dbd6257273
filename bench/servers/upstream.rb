# frozen_string_literal: true

module Bench
  # A server that waits before each answer, for apps that ask another one.
  module Upstream
    module_function

    # @param milliseconds [Integer] that it waits
    # @param cpu [Integer, nil] to pin to
    # @return [Hash] the variable that tells apps its port
    def start(milliseconds, cpu: nil)
      serve("upstream_epoll", milliseconds, cpu: cpu)
    end

    # One that streams events.
    # @param events [Integer] of a stream
    # @param pace [Integer] milliseconds between two
    # @param cpu [Integer, nil] to pin to
    # @return [Hash] the variable that tells apps its port
    def stream(events:, pace:, cpu: nil)
      serve("events_epoll", events, pace, cpu: cpu)
    end

    def serve(program, *words, cpu:)
      port = Ports.free
      command = [Compiler.program("servers/#{program}.c"), port.to_s, *words.map(&:to_s)]
      child = Child.new(command, name: "upstream", cpu: cpu, files: Files.raise_limit)
      child.wait_ready(seconds: 5) { open?(port) }
      { "UPSTREAM" => port.to_s }
    end

    def open?(port)
      TCPSocket.new("127.0.0.1", port).close
      true
    rescue Errno::ECONNREFUSED
      false
    end
    private_class_method :serve, :open?
  end
end
