# frozen_string_literal: true

require_relative "bind_options"

module Abaca
  class Config
    # One place to listen at: `tcp://host:port`, `ssl://host:port`, `unix:///path`, or `fd://N`, an inherited socket
    # that already listens; with options in the query.
    #
    # tcp:  `backlog=N`, `defer_accept=false`, `reuse_port=true`, `redirect=https`
    # ssl:  the same, `cert=PATH&key=PATH` and the other parameters of docs/tls.md
    # unix: `backlog=N`, `umask=0NNN`, `mode=NNN` (octal); `unix://@name` is an abstract socket
    # all:  `proxy_protocol=v1` (or `v2`, `any`), `proxy_from=10.0.0.0/8,::1`
    # all:  `h2c=true` lets a client begin with HTTP/2 without TLS (docs/http2.md); not for ssl
    # all:  any limit of docs/configuration.md by its name, for the connections of this place
    #
    #   tcp://0.0.0.0:80?max_body_size=1000000&header_timeout=5
    class Bind
      BACKLOG = BindOptions::BACKLOG
      PORT_URL = %r{\A(tcp|ssl)://(\[[^\]/?#]+\]|[^\[\]:/?#]*):(\d+)/?(?:\?(.*))?\z}
      UNIX_URL = %r{\Aunix:(?://|(?=/[^/]))([^?]+)(?:\?(.*))?\z} # with one slash, too: unix:/run/app.sock
      FD_URL = %r{\Afd://(\d{1,9})(?:\?(.*))?\z}
      private_constant :PORT_URL, :UNIX_URL, :FD_URL

      # @return [String, nil] a name or address without brackets; nil: the configuration's default host
      attr_reader :host
      # @return [Integer, nil] 0 leaves the choice to the kernel
      attr_reader :port
      # @return [String, nil] of a unix socket; an abstract one begins with @
      attr_reader :path
      # @return [Integer, nil] the number of an inherited descriptor
      attr_reader :fd
      # @return [Hash{Symbol => Object}] keyword arguments for Server#add_tcp_listener, #add_unix_listener or
      #   #add_listener_fd; and `tls`
      attr_reader :options
      # @return [String, nil] file and line of the configuration that it comes from
      attr_reader :place

      class << self
        # @param host [String, nil]
        # @param port [Integer, String]
        # @return [Bind]
        # @raise [ConfigError] if the port is invalid
        def tcp(host, port, place: nil, **options)
          new(**target(host, port), place:, options: BindOptions::TCP.merge(options))
        end

        # @param host [String, nil]
        # @param port [Integer, String]
        # @param tls [TLS]
        # @return [Bind]
        # @raise [ConfigError] if the port is invalid
        def ssl(host, port, tls: TLS.new, place: nil, **options)
          new(**target(host, port), place:, options: BindOptions::SSL.merge(options, tls:))
        end

        # @param path [String]
        # @return [Bind]
        def unix(path, place: nil, **options) = new(path:, place:, options: BindOptions::UNIX.merge(options))

        # @param number [Integer]
        # @return [Bind]
        def fd(number, place: nil, **options) = new(fd: number, place:, options: BindOptions::FD.merge(options))

        # @param url [String]
        # @param place [String, nil] file and line that it comes from
        # @param given [Hash{Symbol => Object}] options in place of the URL's query, or beside it
        # @return [Bind]
        # @raise [ConfigError] when it is not a URL of this grammar
        def parse(url, place: nil, **given)
          if (match = PORT_URL.match(url))
            _, scheme, host, port, query = *match
            known = scheme == "ssl" ? BindOptions::SSL : BindOptions::TCP
            options = BindOptions.read(url, query, given, known)
            public_send(scheme, host.empty? ? nil : host, port, place:, **options)
          elsif (match = UNIX_URL.match(url))
            unix(match[1].gsub("%20", " "), place:, **BindOptions.read(url, match[2], given, BindOptions::UNIX))
          elsif (match = FD_URL.match(url))
            fd(Integer(match[1], 10), place:, **BindOptions.read(url, match[2], given, BindOptions::FD))
          else
            raise ConfigError, "invalid URI: #{url} (tcp://host:port, ssl://host:port, unix:///path or fd://N is " \
                               "needed)"
          end
        end

        # @param wanted [Boolean] of `h2c`
        # @return [Boolean]
        # @raise [ConfigError] if this build has no HTTP/2
        def h2c(wanted)
          return wanted ? true : false if HTTP2_LIBRARY || !wanted

          raise ConfigError, "h2c: this build has no HTTP/2; install libnghttp2 and compile Abaca again " \
                             "(#{Packages.hint('libnghttp2-dev')})"
        end

        private

        def target(host, port)
          number = Integer(port, 10, exception: false) if port.is_a?(String)
          number = port if port.is_a?(Integer)
          unless number&.between?(0, 65_535)
            raise ConfigError, "a port is a number from 0 to 65535, not #{port.inspect}"
          end

          { host: host&.delete_prefix("[")&.delete_suffix("]"), port: number }
        end
      end

      def initialize(options:, host: nil, port: nil, path: nil, fd: nil, place: nil)
        @host = host
        @port = port
        @path = path
        @fd = fd
        @place = place
        proxies = options.slice(:proxy_protocol, :proxy_from)
        @options = options.merge(Proxies.listener(**proxies), h2c: self.class.h2c(options[:h2c])).freeze
        freeze
      end

      def unix? = !@path.nil?

      # @return [TLS, nil] nil for a place without
      def tls = @options[:tls]

      # @return [Boolean] whether the host is still unknown
      def hostless? = @host.nil? && !@port.nil?

      # @return [Bind] the same port on another host
      def with_host(host) = self.class.new(host:, port: @port, options: @options, place: @place)

      # @param tls [TLS]
      # @return [Bind] the same port, with TLS
      def with_tls(tls)
        options = @options.slice(*BindOptions::SSL.keys, :limits)
        self.class.new(host: @host, port: @port, options: BindOptions::SSL.merge(options, tls:), place: @place)
      end

      # @param port [Integer, nil] of the first place with TLS
      # @return [Bind] the same, that redirects there if it does not say where to
      def redirecting(port)
        options = @options.key?(:redirect_port) || port.nil? ? @options : @options.merge(redirect_port: port)
        self.class.new(host: @host, port: @port, options:, place: @place)
      end

      # @return [String] the URL without its options
      def to_s = tls ? socket_url.sub("tcp", "ssl") : socket_url

      # @return [String] the same for the socket alone: `tcp://` with or without TLS
      def socket_url
        return "unix://#{@path}" if unix?
        return "fd://#{@fd}" if @fd

        "tcp://#{@host&.include?(':') ? "[#{@host}]" : @host}:#{@port}"
      end
    end
  end
end
