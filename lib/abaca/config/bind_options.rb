# frozen_string_literal: true

require_relative "tls"

module Abaca
  class Config
    # What may follow a place to listen at: in the query of its URL, or as keyword arguments of `bind` and `ssl_bind`.
    module BindOptions
      BACKLOG = 1024
      ALL = { proxy_protocol: nil, proxy_from: [].freeze }.freeze
      CLEAR = { **ALL, h2c: false }.freeze
      # Names and defaults, by the kind of a place.
      TCP = { backlog: BACKLOG, defer_accept: true, reuse_port: false, **CLEAR }.freeze
      SSL = { backlog: BACKLOG, defer_accept: true, reuse_port: false, **ALL }.freeze
      UNIX = { backlog: BACKLOG, umask: nil, mode: nil, **CLEAR }.freeze
      FD = CLEAR
      # Those that are not there by default.
      FURTHER = {}.compare_by_identity.update(TCP => %i[redirect redirect_hosts redirect_port], UNIX => [], FD => [],
                                              SSL => [:plain_http, *TLS::NAMES, *TLS::JRUBY]).freeze
      SWITCHES = %i[defer_accept reuse_port h2c].freeze
      # What shall stand neither in a URL, which is in the list of processes, nor in messages.
      KEY = /(?<name>(?:\A|[?&])key_pem=)[^&]*/
      HOST = /\A(?:\*\.)?[a-z0-9.:\[\]-]+\z/i
      private_constant :ALL, :CLEAR, :FURTHER, :SWITCHES, :KEY, :HOST

      class << self
        # @param url [String] for messages
        # @param query [String, nil] of the URL
        # @param given [Hash{Symbol => Object}] the same as Ruby has it
        # @param known [Hash{Symbol => Object}] one of the above
        # @return [Hash{Symbol => Object}] what is not as by default; with `limits`, and `tls` of an `ssl://` place
        # @raise [ConfigError] naming the URL
        def read(url, query, given, known)
          refuse_key(query)
          tls = [] # of pairs
          options = (pairs(query) + given.to_a).each_with_object({}) do |(key, value), found|
            if LIMITS.key?(key) then (found[:limits] ||= {})[key] = Values.check_limit(key, value)
            elsif !names(known).include?(key) then refuse(key, known)
            elsif TLS::NAMES.include?(key) || TLS::JRUBY.include?(key) then tls << [key, value] unless value.nil?
            else found[key] = check(key, value)
            end
          end
          known.equal?(SSL) ? options.merge(tls: tls(tls)) : whole(options)
        rescue ConfigError => e
          raise ConfigError, "#{url.gsub(KEY, '\\k<name>...')}: #{e.message}"
        end

        # @param options [Hash{Symbol => Object}] as #read takes them, but for those of TLS; nil: not given
        # @return [Hash{Symbol => Object}] the same in one form
        # @raise [ConfigError]
        def checked(options) = whole(options.to_h { |key, value| [key, value && check(key, value)] })

        private

        def refuse_key(query)
          raise ConfigError, "key_pem is for Ruby, not for a URL; name a file" if query.to_s.match?(KEY)
        end

        def names(known) = known.keys + FURTHER.fetch(known)

        # Puma's `low_latency` is always on here. A name without a value has an empty one.
        def pairs(query)
          pairs = query.to_s.split("&").map { |pair| pair.split("=", 2) }
          pairs.reject { |key, _| key.nil? || key == "low_latency" }.map do |key, value|
            [key.to_sym, decode(value.to_s)]
          end
        end

        # A `+` stays: it is more common in lists of ciphers than a blank in a path.
        def decode(value) = value.gsub(/%(\h\h)/) { [Regexp.last_match(1)].pack("H2") }.force_encoding(value.encoding)

        def refuse(key, known)
          return if key == :low_latency

          raise ConfigError, "unknown parameter #{key}#{Values.suggestion(key, [*names(known), *LIMITS.keys])}"
        end

        # Each `cert` begins another certificate.
        def tls(pairs)
          groups = []
          pairs.select { |pair| TLS::OF_CERTIFICATE.include?(pair.first) }.each do |key, value|
            groups << {} if groups.empty? || groups.last.key?(key) || begins_another?(groups.last, key)
            groups.last[key] = value
          end
          others = pairs.to_h.except(*TLS::OF_CERTIFICATE)
          own = groups.map { |given| TLS::Certificate.of(given) }
          TLS.new(**others, certificates: own + TLS.certificates(others[:certificates]))
        end

        def begins_another?(group, key)
          %i[cert cert_pem].include?(key) && (group.key?(:cert) || group.key?(:cert_pem)) &&
            (group.key?(:key) || group.key?(:key_pem))
        end

        def check(key, value)
          case key
          when *SWITCHES then value == "false" || !value ? false : true
          when :redirect then one_of(key, %i[https], value)
          when :redirect_hosts then hosts(value)
          when :plain_http then one_of(key, %i[refuse redirect], value)
          when :proxy_protocol then value.to_s
          when :proxy_from then value.is_a?(Array) ? value : value.to_s.split(",", -1)
          else number(key, value)
          end
        end

        # What says where to needs that a client is sent there.
        def whole(options)
          lost = %i[redirect_hosts redirect_port].find { |name| options[name] } unless options[:redirect]
          raise ConfigError, "#{lost} has no effect without redirect=https" if lost

          options
        end

        def one_of(key, names, value)
          Values.one_of(names, value) or
            raise ConfigError, "#{key}: #{names.join(' or ')} is needed, not #{value.inspect}"
        end

        # As a browser writes them.
        def hosts(value)
          list = value.is_a?(Array) ? value : value.to_s.b.split(",")
          list.each do |host|
            raise ConfigError, "redirect_hosts: #{host.inspect} is no host" unless Values.ascii?(HOST, host)
          end
          list.map { |host| host.downcase.freeze }.freeze
        end

        def number(key, value)
          return value if value.nil?

          number = value
          unless value.is_a?(Integer)
            number = key == :mode ? Integer(value.to_s, 8, exception: false) : Integer(value.to_s, exception: false)
          end
          return number if number&.between?(key == :backlog ? 1 : 0, 65_535)

          raise ConfigError, "#{key}=#{value} is not a number that fits"
        end
      end
    end
  end
end
