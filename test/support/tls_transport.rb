# frozen_string_literal: true

require "tmpdir"
require_relative "certificates"
require_relative "tls_client"

# What the tests of ServerCase need to speak TLS.
module TLSTransport
  # For Server#add_ssl_listener.
  def self.certificate
    @certificate ||= Dir.mktmpdir("abaca") { |folder| Certificates.new(folder).make("a", names: ["a.test"]).texts }
  end
end
