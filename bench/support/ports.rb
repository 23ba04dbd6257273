# frozen_string_literal: true

require "socket"

module Bench
  # Ports on the loopback.
  module Ports
    RECENT = 16 # ports that are not given away again

    module_function

    # @return [Integer] a port that was free a moment ago
    def free
      @recent ||= []
      port = any while port.nil? || @recent.include?(port)
      @recent = [*@recent, port].last(RECENT)
      port
    end

    def any
      server = TCPServer.new("127.0.0.1", 0)
      server.addr[1]
    ensure
      server&.close
    end
    private_class_method :any
  end
end
