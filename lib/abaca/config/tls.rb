# frozen_string_literal: true

module Abaca
  class Config
    # How a place to listen at speaks TLS: what the URL of `ssl://`, `ssl_bind` and Server#add_ssl_listener are given,
    # checked and in one form (docs/tls.md). Files are only named here; TLS::Source reads them.
    class TLS
      # Puma's names of flags for checks of client certificates, with their bits in OpenSSL (X509_V_FLAG_*).
      FLAGS = { "USE_CHECK_TIME" => 0x2, "CRL_CHECK" => 0x4, "CRL_CHECK_ALL" => 0x8, "IGNORE_CRITICAL" => 0x10,
                "X509_STRICT" => 0x20, "ALLOW_PROXY_CERTS" => 0x40, "POLICY_CHECK" => 0x80, "EXPLICIT_POLICY" => 0x100,
                "INHIBIT_ANY" => 0x200, "INHIBIT_MAP" => 0x400, "NOTIFY_POLICY" => 0x800,
                "EXTENDED_CRL_SUPPORT" => 0x1000, "USE_DELTAS" => 0x2000, "CHECK_SS_SIGNATURE" => 0x4000,
                "TRUSTED_FIRST" => 0x8000, "SUITEB_128_LOS_ONLY" => 0x10000, "SUITEB_192_LOS" => 0x20000,
                "SUITEB_128_LOS" => 0x30000, "PARTIAL_CHAIN" => 0x80000, "NO_ALT_CHAINS" => 0x100000,
                "NO_CHECK_TIME" => 0x200000 }.freeze
      # Whether a client is asked for a certificate, and whether it must have one.
      VERIFY_MODES = %i[none peer force_peer].freeze
      # The versions of TLS that there are.
      VERSIONS = { "1.2" => 0x0303, "1.3" => 0x0304 }.freeze
      # Parameters that make up one certificate. In a URL each `cert` begins another one.
      OF_CERTIFICATE = %i[cert key cert_pem key_pem key_password_command].freeze
      # Parameters that have no effect, since it is always so: no version before 1.2, tickets for sessions.
      ALWAYS = %i[no_tlsv1 no_tlsv1_1 reuse].freeze
      # Those of JRuby's Puma.
      JRUBY = %i[keystore keystore_pass keystore_type truststore truststore_pass truststore_type cipher_suites
                 ssl_cipher_list protocols].freeze
      # All that may be given.
      NAMES = [*OF_CERTIFICATE, :certificates, :context, :ca, :ca_pem, :crl, :verify_mode, :verification_flags,
               :ssl_cipher_filter, :ssl_ciphersuites, :min_version, :http2, *ALWAYS].freeze
      private_constant :ALWAYS

      # A certificate with its chain, and its key: paths of files, or PEM as text.
      #
      # place:: file and line of the configuration that it comes from, or nil
      Certificate = Struct.new(*OF_CERTIFICATE, :place, keyword_init: true) do
        # @param given [Hash{Symbol => String, nil}] what was given for one
        # @return [Certificate]
        # @raise [ConfigError] if a part is missing, or there twice
        def self.of(given, place: nil)
          unknown = (given.keys - OF_CERTIFICATE).first
          if unknown
            raise ConfigError, "certificate: unknown parameter #{unknown}#{Values.suggestion(unknown, OF_CERTIFICATE)}"
          end

          new(**given, place:).tap(&:check).freeze
        end

        def check
          %i[cert key].each do |part|
            file, pem = values_at_names(part, :"#{part}_pem")
            next if file.nil? ^ pem.nil?

            raise ConfigError, "a certificate needs #{part}=, a file, or #{part}_pem, its text#{', not both' if file}"
          end
          OF_CERTIFICATE.each { |name| self[name] = text(name, self[name]) }
        end

        # Its name in messages.
        def label = cert || "cert_pem"

        # The key is nobody's to read.
        def to_s = label
        alias_method :inspect, :to_s

        private

        # What may be a key is not repeated.
        def text(name, value)
          pem = name.end_with?("_pem")
          text = Values.text(name, value, shown: pem ? value.class : value.inspect)
          return text if text.nil? || pem || !text.include?("-----BEGIN")

          raise ConfigError, "#{name} names a file; text is for #{name}_pem"
        end

        def values_at_names(*names) = names.map { |name| self[name] }
      end

      # @return [Array<Certificate>] none for a certificate of development
      attr_reader :certificates
      # @return [OpenSSL::SSL::SSLContext, nil] that has certificates instead
      attr_reader :context
      # @return [String, nil] file with the certificates that those of clients must be signed by
      attr_reader :ca
      # @return [String, nil] the same as text
      attr_reader :ca_pem
      # @return [String, nil] file with lists of revoked certificates
      attr_reader :crl
      # @return [Symbol] of VERIFY_MODES
      attr_reader :verify_mode
      # @return [Integer] bits of FLAGS
      attr_reader :verification_flags
      # @return [String, nil] of TLS 1.2, as OpenSSL writes them
      attr_reader :ciphers
      # @return [String, nil] of TLS 1.3
      attr_reader :ciphersuites
      # @return [Integer, nil] of VERSIONS
      attr_reader :min_version

      # @param options [Hash{Symbol => Object}] of NAMES: as text from a URL, or as Ruby has them
      # @raise [ConfigError]
      def initialize(**options)
        self.class.need_library
        @options = options
        refuse_unknown
        @certificates = [*own, *self.class.certificates(options.fetch(:certificates, []))].freeze
        @context = context_given
        take_verification
        @ciphers = text(:ssl_cipher_filter)
        @ciphersuites = text(:ssl_ciphersuites)
        @min_version = version
        @http2 = switch(:http2, true)
        @options = nil
        freeze
      end

      # @param list [Array<Certificate, Hash>, Hash, nil] as `certificates` takes them
      # @return [Array<Certificate>]
      # @raise [ConfigError]
      def self.certificates(list)
        list = [list] if list.respond_to?(:to_hash)
        [*list].map do |one|
          next one if one.is_a?(Certificate)

          Certificate.of(one.respond_to?(:to_hash) ? one.to_hash : { cert: one })
        end.freeze
      end

      # @raise [ConfigError] in a build without TLS
      def self.need_library
        return if TLS_LIBRARY

        raise ConfigError, "this build has no TLS; install OpenSSL and compile Abaca again " \
                           "(#{Packages.hint('libssl-dev')}), or let a proxy in front of it terminate TLS"
      end

      # @return [Boolean] whether clients may choose HTTP/2
      def http2? = @http2

      # @return [Boolean] whether it has a certificate of its own
      def certified? = certificates.any? || !context.nil?

      # @return [Boolean] whether clients are asked for certificates
      def verifies? = verify_mode != :none

      # Neither texts of keys nor their files.
      def inspect = "#<#{self.class} #{certificates.join(', ')}>"
      alias to_s inspect

      private

      def refuse_unknown
        jruby = @options.keys & JRUBY
        raise ConfigError, "#{jruby.first} is for JRuby; cert and key are needed" if jruby.any?

        unknown = (@options.keys - NAMES).first or return
        raise ConfigError, "unknown parameter #{unknown}#{Values.suggestion(unknown, NAMES)}"
      end

      # Only Ruby has one, once its library is loaded.
      def context_given
        value = @options[:context]
        return value if value.nil? || (defined?(OpenSSL::SSL::SSLContext) && value.is_a?(OpenSSL::SSL::SSLContext))

        raise ConfigError, "context: an OpenSSL::SSL::SSLContext is needed, not #{value.inspect}"
      end

      # What was given beside `certificates`.
      def own
        given = @options.slice(*OF_CERTIFICATE).compact
        given.empty? ? [] : [Certificate.of(given)]
      end

      def take_verification
        @ca = text(:ca)
        @ca_pem = text(:ca_pem)
        @crl = text(:crl)
        @verify_mode = mode
        @verification_flags = flags
        return if @verify_mode == :none || @ca || @ca_pem || @context

        raise ConfigError, "verify_mode #{@verify_mode} needs ca=, a file with the certificates that sign those of " \
                           "clients"
      end

      def mode
        value = @options[:verify_mode]
        return :none if value.nil?

        Values.one_of(VERIFY_MODES, value) or
          raise ConfigError, "verify_mode: none, peer or force_peer is needed, not #{value.inspect}"
      end

      def flags
        given = @options[:verification_flags]
        return bits(given) if given.is_a?(Integer)

        [*given].flat_map { |names| names.to_s.split(",") }.reduce(0) do |bits, name|
          bits | FLAGS.fetch(name.strip.upcase) do
            raise ConfigError, "verification_flags: unknown flag #{name}#{Values.suggestion(name, FLAGS.keys)}"
          end
        end
      end

      def bits(given)
        unknown = given & ~FLAGS.values.reduce(:|)
        raise ConfigError, "verification_flags: unknown bits in #{given}" unless unknown.zero?

        given
      end

      def version
        value = @options[:min_version]
        return if value.nil?

        VERSIONS.fetch(value.to_s) { raise ConfigError, "min_version: 1.2 or 1.3 is needed, not #{value.inspect}" }
      end

      def text(name) = Values.text(name, @options[name])

      def switch(name, default)
        value = @options.fetch(name, default)
        value != "false" && value ? true : false
      end
    end
  end
end
