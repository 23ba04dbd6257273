# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Where to listen.
      module Listeners
        # Adds a place to listen at.
        #
        #   bind "tcp://0.0.0.0:9292"
        #   bind "unix:///run/app.sock?umask=0007"
        #   bind "ssl://0.0.0.0:443?cert=app.pem&key=app.key"
        #   bind "tcp://0.0.0.0:80", redirect: :https
        #
        # The options may stand in the URL as well.
        def bind(url, **options)
          @abaca.add(:binds, Bind.parse(url, place: @abaca.place, **options))
        end

        # Adds a TCP port, on `host` or on the default host.
        #
        #   port ENV.fetch("PORT", 3000)
        def port(port, host = nil)
          @abaca.add(:binds, Bind.tcp(host, port, place: @abaca.place))
        end

        # Forgets the places given so far.
        def clear_binds!
          @abaca.set(:binds, [])
        end

        # The address for ports that are given without one: 127.0.0.1 in development and test, else
        # 0.0.0.0.
        def set_default_host(host) # rubocop:disable Naming/AccessorMethodName -- Puma's name
          @abaca.set(:default_host, host)
        end

        # Returns the value of set_default_host.
        def default_host = @abaca.settings[:default_host]

        # Adds a TCP port with TLS (docs/tls.md). The options are Puma's, and those of `bind`.
        #
        #   ssl_bind "0.0.0.0", 443, cert: "app.pem", key: "app.key"
        def ssl_bind(host, port, options = {})
          host = "[#{host}]" if host&.include?(":") && !host.start_with?("[")
          bind("ssl://#{host}:#{port}", **options.transform_keys(&:to_sym))
        end

        # A certificate for all `ssl://` places: the first one is for clients that name no host, or one that has no
        # certificate; the others are chosen by the name.
        #
        #   certificate cert: "a.test.pem", key: "a.test.key"
        #   certificate cert: "b.test.pem", key: "b.test.key"
        def certificate(**parts)
          @abaca.add(:certificates, TLS::Certificate.of(parts, place: @abaca.place))
        end

        # The proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted: addresses, networks, :loopback,
        # :private (docs/proxies.md). The last call counts. `fields: :forwarded` reads Forwarded (RFC 7239) instead;
        # choose what your proxies write, since they pass on the other as clients sent it.
        #
        #   trusted_proxies :loopback, "10.0.0.0/8"
        def trusted_proxies(*networks, fields: :x_forwarded)
          @abaca.set(:trusted_proxies, networks)
          @abaca.set(:forwarded_fields, fields)
        end

        # Where REMOTE_ADDR comes from if there is no list of trusted proxies: :socket, the default; :localhost;
        # `header: "X-Real-IP"`, which any client can send unless trusted_proxies is set too; `proxy_protocol: :v1`,
        # which any client can send; or a String, as it is.
        def set_remote_address(value = :socket)
          @abaca.set(:remote_address, value)
        end
      end
    end
  end
end
