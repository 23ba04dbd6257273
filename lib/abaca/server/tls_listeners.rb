# frozen_string_literal: true

module Abaca
  class Server
    # Listeners that speak TLS (docs/tls.md), and their certificates.
    module TLSListeners
      # Listens with TLS on every address of a host (docs/tls.md).
      #
      #   server.add_ssl_listener("0.0.0.0", 443, cert: "app.pem", key: "app.key")
      #
      # @param host [String] as for #add_tcp_listener
      # @param port [Integer] the same
      # @param context [OpenSSL::SSL::SSLContext, TLSContext, nil] has the certificates instead
      # @param options [Hash{Symbol => Object}] as for #add_tcp_listener, without `h2c` and `redirect`; those of
      #   `ssl_bind`: `cert`, `key`, `cert_pem`, `key_pem`, `certificates`, `ca`, `verify_mode` and others;
      #   `plain_http`: :redirect answers HTTP without TLS by the way to https, and :refuse by 400
      # @return [Integer] the port (the first address's, should they differ)
      # @raise [ConfigError] if a certificate is of no use, the host has no address, or an option is invalid
      # @raise [SystemCallError] if the port is taken or not allowed
      def add_ssl_listener(host, port, context = nil, **options)
        given, options = options.partition { |name, _| Config::TLS::NAMES.include?(name) }.map(&:to_h)
        context = read_context("ssl://#{host}:#{port}", host, context:, **given) unless context.is_a?(TLSContext)
        add_tcp_listener(host, port, tls: context, **options)
      end

      # Reads the files of certificates that were given to #add_ssl_listener anew. New connections get the new ones,
      # those that are open keep what they have. Any thread may call it; of two that do, one waits.
      #
      # @return [nil]
      # @raise [ConfigError] if one is of no use; then nothing has changed
      def reload_certificates
        @reloading.synchronize do
          secret = ticket_secret.bytes
          readings = @sources.map { |source| [source, source.read(secret)] }
          readings.each { |source, reading| replace_tls(*source.keep(reading)) }
        end
        nil
      end

      # The listeners that have a context get another one. Any thread may call it.
      #
      # @param old [TLSContext]
      # @param new [TLSContext]
      # @return [nil]
      def replace_tls(old, new)
        @contexts.each_with_index do |context, index|
          next unless context.equal?(old)

          @engine.replace_tls(index, new)
          @contexts[index] = new
        end
        nil
      end

      private

      # Reads certificates for a listener of this object's own.
      def read_context(name, host, **given)
        source = TLS::Source.new(Config::TLS.new(**given), name: "#{name} #{@sources.size}", host:,
                                                           certificates: @config[:certificates],
                                                           developing: @config.developing?)
        source.keep(source.read(ticket_secret.bytes))
        require "openssl" if source.options[:verify] != :none # apps see certificates of clients
        @sources << source
        source.context
      end

      def ticket_secret = @ticket_secret ||= TLS::Secret.new(@config[:tls_ticket_key_file])

      # Where a listener sends its clients, in the engine's words.
      def redirect_terms(plain_http: nil, redirect: nil, redirect_hosts: nil, redirect_port: nil)
        given = Config::BindOptions.checked({ plain_http:, redirect:, redirect_hosts:, redirect_port: })
        { plain_http: given[:plain_http],
          redirect: ({ hosts: given[:redirect_hosts], port: given[:redirect_port] } if given[:redirect]) }
      end
    end
  end
end
