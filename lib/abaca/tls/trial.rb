# frozen_string_literal: true

require "openssl"
require "socket"

module Abaca
  module TLS
    # A handshake with an OpenSSL::SSL::SSLContext of Ruby's, within this process: what the context does not tell shows
    # in what it does.
    module Trial
      class << self
        # @param context [OpenSSL::SSL::SSLContext] of a server, with a certificate; it is frozen by this, as by any use
        # @param version [Integer] of OpenSSL::SSL's
        # @return [Boolean] whether a client that knows no later version than that gets in
        def accepts?(context, version)
          pair = UNIXSocket.pair
          server = OpenSSL::SSL::SSLSocket.new(pair.first, context)
          client = OpenSSL::SSL::SSLSocket.new(pair.last, client_of(version))
          shake_hands(client, server)
        ensure
          pair&.each(&:close)
        end

        private

        def client_of(version)
          OpenSSL::SSL::SSLContext.new.tap do |context|
            context.max_version = version
            context.verify_mode = OpenSSL::SSL::VERIFY_NONE
          end
        end

        # The client speaks first; each answers what the other has said, so neither waits for the socket. A server may
        # refuse this client for its want of a certificate, but a version is agreed upon by then.
        def shake_hands(client, server)
          loop do
            hello = client.connect_nonblock(exception: false)
            answer = server.accept_nonblock(exception: false)
            return true unless [hello, answer].all?(Symbol)
          end
        rescue OpenSSL::SSL::SSLError => e
          !e.message.match?(/protocol/)
        end
      end
    end
  end
end
