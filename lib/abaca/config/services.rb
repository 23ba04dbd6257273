# frozen_string_literal: true

module Abaca
  class Config
    # What is at the other end of the app's connections (docs/sight.md), beside the usual ports: checks the setting
    # `services`.
    module Services
      KINDS = %w[db cache http io].freeze
      FORMS = '"10.0.0.9:5432", "[::1]:6432", 6432 or "/run/pgbouncer.sock"'
      private_constant :FORMS

      class << self
        # @param list [Array<Array>] kinds and places; some may have been checked before
        # @return [Array<Array(String, String, Integer)>] kind, host or nil for any, port; or kind and path
        # @raise [ConfigError]
        def check(list)
          list.map { |one| one.size == 3 ? one : [kind(one[0]), *place(one[1])].freeze }.freeze
        end

        # The engine's options for a configuration. A host whose name has no address now is left out.
        #
        # @param config [Config]
        # @return [Hash{Symbol => Object}]
        def engine_options(config)
          services = config[:services].flat_map do |kind, host, port|
            addresses = port && host ? addresses(host, port) : [host]
            addresses.map { |address| [kind, address, port] }
          end
          { services:, slow_after: config[:slow_after], metrics_routes: config[:metrics_routes],
            metrics_ignore: config[:metrics_ignore].map { |pattern| [true, pattern] } }
        end

        private

        def kind(kind)
          return kind.to_s if KINDS.include?(kind.to_s)

          raise ConfigError, "service: #{KINDS[..-2].map(&:inspect).join(', ')} or #{KINDS.last.inspect} is needed, " \
                             "not #{kind.inspect}"
        end

        def place(place)
          port = Values.whole(place)
          return [nil, port] if port&.between?(1, 65_535)
          return [place.dup.freeze] if place.is_a?(String) && place.start_with?("/")

          host_and_port(place) || raise(ConfigError, "service: a place like #{FORMS} is needed, not #{place.inspect}")
        end

        def host_and_port(place)
          parts = /\A(?:\[(?<six>[\h:.]+)\]|(?<host>[^\[\]:\s]+)):(?<port>\d{1,5})\z/.match(place.to_s) or return
          port = parts[:port].to_i
          [(parts[:six] || parts[:host]).freeze, port] if port.between?(1, 65_535)
        end

        def addresses(host, port)
          require "ipaddr" # where a service has a host
          IPAddr.new(host)
          [host]
        rescue IPAddr::Error
          begin
            Addrinfo.getaddrinfo(host, port, nil, :STREAM).map(&:ip_address).uniq
          rescue SocketError
            []
          end
        end
      end
    end
  end
end
