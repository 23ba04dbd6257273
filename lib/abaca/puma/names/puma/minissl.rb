# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  def self.ssl? = !Abaca::TLS_LIBRARY.nil?

  # Puma's own TLS.
  module MiniSSL
    # Handshakes fail in the engine, and the log has them.
    class SSLError < StandardError; end
  end
end
