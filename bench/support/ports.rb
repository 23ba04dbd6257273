# frozen_string_literal: true

require "socket"

module Bench
  # Ports on the loopback.
  module Ports
    module_function

    # @return [Integer] a port that was free a moment ago
    def free
      server = TCPServer.new("127.0.0.1", 0)
      server.addr[1]
    ensure
      server&.close
    end
  end
end
