# frozen_string_literal: true

module Abaca
  module TLS
    # Certificates for a developer's own machine, of the gem `localhost`: it keeps them, and the authority that has
    # signed them, in the folder of the user's state.
    module Development
      # Names of this machine that a certificate cannot have, or that say nothing.
      ADDRESS = /\A(?:[\d.]+|.*:.*)\z/
      # Seconds that one must still be valid.
      LEAST = 86_400
      private_constant :ADDRESS, :LEAST

      class << self
        # @raise [ConfigError] if the gem is not there
        def need
          require "localhost"
        rescue LoadError
          raise ConfigError, "no certificate: give cert= and key=, or add `gem \"localhost\", group: :development' " \
                             "to the Gemfile, which makes one"
        end

        # @param host [String, nil] where the server listens
        # @return [Config::TLS::Certificate]
        # @raise [ConfigError] if it cannot be made
        def certificate(host)
          need
          authority = fetch(name_of(host))
          chain = [authority.certificate, *issuer(authority)].map(&:to_pem).join
          Config::TLS::Certificate.new(cert_pem: chain, key_pem: authority.key.to_pem,
                                       cert: "the certificate of development").freeze
        rescue SystemCallError, ArgumentError => e # a home that is not there, or not known
          raise ConfigError, "the certificate of development cannot be made: #{e.message}"
        end

        private

        def name_of(host) = host.nil? || host.empty? || host.match?(ADDRESS) ? "localhost" : host

        # The gem does not look whether it has expired.
        def fetch(name)
          authority = ::Localhost::Authority.fetch(name)
          return authority if authority.certificate.not_after > Time.now + LEAST

          ::Localhost::Authority.new(name).tap(&:save)
        end

        def issuer(authority) = authority.respond_to?(:issuer) ? authority.issuer&.certificate : nil
      end
    end
  end
end
