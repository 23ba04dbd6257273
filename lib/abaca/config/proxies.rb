# frozen_string_literal: true

module Abaca
  class Config
    # Which proxies are trusted, and with what (docs/proxies.md): checks these settings, and gives them one form.
    module Proxies
      # Versions of the PROXY protocol that a listener can require.
      PROTOCOLS = %i[v1 v2 any].freeze

      # Names for common networks.
      NETWORKS = {
        loopback: ["127.0.0.0/8", "::1"].freeze,
        private: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"].freeze
      }.freeze

      # The fields that a trusted proxy writes: X-Forwarded-For and X-Forwarded-Proto, or Forwarded.
      FIELDS = %i[x_forwarded forwarded].freeze

      SCHEMES = %w[http https].freeze
      FIELD_NAME = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/
      private_constant :SCHEMES, :FIELD_NAME

      class << self
        # @param list [String, Symbol, Array, nil] addresses, networks like `10.0.0.0/8`, :loopback, :private
        # @param name [String] of the setting, for the error
        # @return [Array<String>] addresses and networks
        # @raise [ConfigError]
        def networks(list, name)
          [*list].flatten.flat_map do |item|
            next NETWORKS.fetch(item) if NETWORKS.key?(item)
            next item.dup.freeze if item.is_a?(String) && Engine.network?(item)

            raise ConfigError, "#{name}: #{item.inspect} is no address, no network like \"10.0.0.0/8\", " \
                               "and neither :loopback nor :private"
          end.freeze
        end

        # @param list [String, Symbol, Array, nil] as for `networks`
        # @return [Array<String>] of `trusted_proxies`
        # @raise [ConfigError]
        def trusted(list) = networks(list, "trusted_proxies")

        # The options of a place to listen at.
        #
        # @param proxy_protocol [Symbol, String, nil] :v1, :v2 or :any
        # @param proxy_from [String, Symbol, Array] as for `networks`
        # @return [Hash{Symbol => Object}]
        # @raise [ConfigError]
        def listener(proxy_protocol: nil, proxy_from: [])
          protocol = Values.one_of(PROTOCOLS, proxy_protocol)
          unless protocol || proxy_protocol.nil?
            raise ConfigError, "proxy_protocol: v1, v2 or any is needed, not #{proxy_protocol.inspect}"
          end

          from = networks(proxy_from, "proxy_from")
          raise ConfigError, "proxy_from: means nothing without proxy_protocol" if from.any? && protocol.nil?

          { proxy_protocol: protocol, proxy_from: from }
        end

        # @param value [Symbol, String, Hash] as set_remote_address takes it
        # @return [Symbol, String, Hash] :socket, a fixed value, `{ header: }` or `{ proxy_protocol: :v1 }`
        # @raise [ConfigError]
        def remote_address(value)
          case value
          when :socket then :socket
          when :localhost then "127.0.0.1"
          when String then value.dup.freeze
          when Hash then remote_address_source(value)
          else raise_remote_address(value)
          end
        end

        # @param value [String] of `rack_url_scheme`
        # @return [String]
        # @raise [ConfigError]
        def scheme(value)
          return value if SCHEMES.include?(value)

          raise ConfigError, "rack_url_scheme: http or https, not #{value}"
        end

        # The engine's options for a configuration.
        #
        # @param config [Config]
        # @return [Hash{Symbol => Object}]
        def engine_options(config)
          address = config[:remote_address]
          { trusted_proxies: config[:trusted_proxies], rfc7239: config[:forwarded_fields] == :forwarded,
            remote_address: (address if address.is_a?(String)),
            client_field: (address[:header]&.downcase if address.is_a?(Hash)) }
        end

        # The options of a listener; without any, those of Puma's way to expect the PROXY protocol.
        #
        # @param config [Config]
        # @param options [Hash{Symbol => Object}] as `listener` returns them
        # @return [Hash{Symbol => Object}]
        def listener_of(config, options)
          return options if options[:proxy_protocol] || config[:remote_address] != { proxy_protocol: :v1 }

          options.merge(proxy_protocol: :v1_if_sent)
        end

        private

        def remote_address_source(value)
          raise_remote_address(value) unless value.size == 1
          return { proxy_protocol: :v1 }.freeze if Values.one_of([:v1], value[:proxy_protocol])
          # Like Puma, which makes an env key of it, this takes "X_Real_IP" for "X-Real-IP".
          return { header: value[:header].tr("_", "-").freeze }.freeze if Values.ascii?(FIELD_NAME, value[:header])

          raise_remote_address(value)
        end

        def raise_remote_address(value)
          raise ConfigError, "remote_address: :socket, :localhost, a String, header: \"X-Real-IP\" or " \
                             "proxy_protocol: :v1 is needed, not #{value.inspect}"
        end
      end
    end
  end
end
