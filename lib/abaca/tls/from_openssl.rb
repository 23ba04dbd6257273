# frozen_string_literal: true

require "openssl"
require_relative "trial"

module Abaca
  module TLS
    # What can be taken from an OpenSSL::SSL::SSLContext of Ruby's: certificate, key, chain, ca_file, verify_mode, the
    # least version and the ciphers. Where leaving the rest out would change who gets in, it is an error.
    module FromOpenSSL
      LABEL = "the SSLContext"
      # Callbacks that decide whom to let in, or as whom to answer.
      DECIDES = { verify_callback: "verify_mode and ca", servername_cb: "several certificates" }.freeze
      VERIFY = { OpenSSL::SSL::VERIFY_NONE => :none, OpenSSL::SSL::VERIFY_PEER => :peer,
                 OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT => :force_peer }.freeze
      private_constant :LABEL, :DECIDES, :VERIFY

      class << self
        # @param settings [Config::TLS] with a context; what is given beside it counts more
        # @return [Hash{Symbol => Object}] for TLSContext.new
        # @raise [ConfigError]
        def options(settings)
          context = settings.context
          refuse_callbacks(context)
          ciphers, suites = ciphers(context)
          { identities: [identity(context)], **clients(context, settings),
            verification_flags: settings.verification_flags, crl: Material.file("crl", settings.crl),
            ciphers: settings.ciphers || ciphers, ciphersuites: settings.ciphersuites || suites,
            min_version: settings.min_version || least(context), http2: settings.http2? && !HTTP2_LIBRARY.nil? }
        rescue OpenSSL::OpenSSLError => e
          raise ConfigError, "#{LABEL}: #{e.message}"
        end

        private

        def refuse_callbacks(context)
          name, instead = DECIDES.find { |callback, _| context.public_send(callback) }
          raise ConfigError, "#{LABEL}: its #{name} cannot be taken; give #{instead}" if name
        end

        def identity(context)
          unless context.cert && context.key
            raise ConfigError, "#{LABEL} has no cert and key; those of add_certificate cannot be read"
          end

          chain = [context.cert, *context.extra_chain_cert].map(&:to_pem).join
          [chain, context.key.private_to_pem, nil, LABEL]
        end

        def clients(context, settings)
          mode = settings.verifies? ? settings.verify_mode : VERIFY.fetch(context.verify_mode || 0, :force_peer)
          ca = settings.ca_pem || Material.file("ca", settings.ca || context.ca_file)
          return { verify: mode, ca: } if mode == :none || ca

          raise ConfigError, "#{LABEL}: it verifies clients, and a cert_store or ca_path cannot be read; give ca_file"
        end

        # The library's own list is not a choice.
        def ciphers(context)
          names = context.ciphers.map(&:first)
          return if names == OpenSSL::SSL::SSLContext.new.ciphers.map(&:first)

          suites, others = names.partition { |name| name.start_with?("TLS_") }
          [others, suites].map { |list| list.join(":") unless list.empty? }
        end

        # Newer versions of the gem do not tell it: then it is tried out.
        def least(context)
          return 0x0304 if context.options.anybits?(OpenSSL::SSL::OP_NO_TLSv1_2)
          return (0x0304 unless Trial.accepts?(context, OpenSSL::SSL::TLS1_2_VERSION)) unless tells?

          known = context.instance_variable_get(:@min_proto_version)
          known = OpenSSL::SSL.const_get("#{known}_VERSION") if known.is_a?(Symbol) || known.is_a?(String)
          known if known.is_a?(Integer) && known > 0x0303
        end

        def tells?
          context = OpenSSL::SSL::SSLContext.new
          context.min_version = :TLS1_2
          context.instance_variable_defined?(:@min_proto_version)
        end
      end
    end
  end
end
