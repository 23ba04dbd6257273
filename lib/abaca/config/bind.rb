# frozen_string_literal: true

module Abaca
  class Config
    # One place to listen at: `tcp://host:port`, `unix:///path`, or `fd://N`, an inherited socket that already
    # listens; with options in the query.
    #
    # tcp:  `backlog=N`, `defer_accept=false`, `reuse_port=true`
    # unix: `backlog=N`, `umask=0NNN`, `mode=NNN` (octal); `unix://@name` is an abstract socket
    # all:  `proxy_protocol=v1` (or `v2`, `any`), `proxy_from=10.0.0.0/8,::1`
    # all:  `h2c=true` lets a client begin with HTTP/2 without TLS (docs/http2.md)
    # all:  any limit of docs/configuration.md by its name, for the connections of this place
    #
    #   tcp://0.0.0.0:80?max_body_size=1000000&header_timeout=5
    class Bind
      BACKLOG = 1024
      TCP = { backlog: BACKLOG, defer_accept: true, reuse_port: false, proxy_protocol: nil, proxy_from: [],
              h2c: false }.freeze
      UNIX = { backlog: BACKLOG, umask: nil, mode: nil, proxy_protocol: nil, proxy_from: [], h2c: false }.freeze
      FD = { proxy_protocol: nil, proxy_from: [], h2c: false }.freeze
      TCP_URL = %r{\Atcp://(\[[^\]/?#]+\]|[^\[\]:/?#]*):(\d+)/?(?:\?(.*))?\z}
      UNIX_URL = %r{\Aunix://([^?]+)(?:\?(.*))?\z}
      FD_URL = %r{\Afd://(\d{1,9})(?:\?(.*))?\z}
      private_constant :TCP, :UNIX, :FD, :TCP_URL, :UNIX_URL, :FD_URL

      # @return [String, nil] a name or address without brackets; nil: the configuration's default host
      attr_reader :host
      # @return [Integer, nil] 0 leaves the choice to the kernel
      attr_reader :port
      # @return [String, nil] of a unix socket; an abstract one begins with @
      attr_reader :path
      # @return [Integer, nil] the number of an inherited descriptor
      attr_reader :fd
      # @return [Hash{Symbol => Object}] keyword arguments for Server#add_tcp_listener, #add_unix_listener or
      #   #add_listener_fd
      attr_reader :options

      # @param host [String, nil]
      # @param port [Integer, String]
      # @return [Bind]
      # @raise [ConfigError] if the port is invalid
      def self.tcp(host, port, **options)
        number = Integer(port, 10, exception: false) if port.is_a?(String)
        number = port if port.is_a?(Integer)
        raise ConfigError, "a port is a number from 0 to 65535, not #{port.inspect}" unless number&.between?(0, 65_535)

        new(host: host&.delete_prefix("[")&.delete_suffix("]"), port: number, options: TCP.merge(options))
      end

      # @param path [String]
      # @return [Bind]
      def self.unix(path, **options) = new(path:, options: UNIX.merge(options))

      # @param number [Integer]
      # @return [Bind]
      def self.fd(number, **options) = new(fd: number, options: FD.merge(options))

      # @param url [String]
      # @return [Bind]
      # @raise [ConfigError] when it is not a URL of this grammar
      def self.parse(url)
        if (match = TCP_URL.match(url))
          tcp(match[1].empty? ? nil : match[1], match[2], **query(url, match[3], TCP))
        elsif (match = UNIX_URL.match(url))
          unix(match[1].gsub("%20", " "), **query(url, match[2], UNIX))
        elsif (match = FD_URL.match(url))
          fd(Integer(match[1], 10), **query(url, match[2], FD))
        elsif url.start_with?("ssl://")
          raise ConfigError, "#{url}: this version has no TLS; let a proxy in front of it terminate TLS"
        else
          raise ConfigError, "invalid URI: #{url} (tcp://host:port, unix:///path or fd://N is needed)"
        end
      end

      # Puma's `low_latency` is always on here.
      def self.query(url, text, known)
        text.to_s.split("&").filter_map { |pair| pair.split("=", 2) }.each_with_object({}) do |(key, value), options|
          next if key == "low_latency"

          key = key.to_sym
          if LIMITS.key?(key)
            (options[:limits] ||= {})[key] = limit(url, key, value)
          elsif known.key?(key)
            options[key] = parameter(url, key, value)
          else
            raise ConfigError, "#{url}: unknown parameter #{key}#{Values.suggestion(key, [*known.keys, *LIMITS.keys])}"
          end
        end
      end

      def self.limit(url, key, value)
        Values.check_limit(key, value)
      rescue ConfigError => e
        raise ConfigError, "#{url}: #{e.message}"
      end

      def self.parameter(url, key, value)
        return value != "false" if %i[defer_accept reuse_port h2c].include?(key)
        return value.to_s if key == :proxy_protocol
        return value.to_s.split(",", -1) if key == :proxy_from

        number = key == :mode ? Integer(value.to_s, 8, exception: false) : Integer(value.to_s, exception: false)
        least = key == :backlog ? 1 : 0
        return number if number&.between?(least, 65_535)

        raise ConfigError, "#{url}: #{key}=#{value} is not a number that fits"
      end
      private_class_method :query, :parameter, :limit

      # @param wanted [Boolean] of `h2c`
      # @return [Boolean]
      # @raise [ConfigError] if this build has no HTTP/2
      def self.h2c(wanted)
        return wanted ? true : false if HTTP2_LIBRARY || !wanted

        raise ConfigError, "h2c: this build has no HTTP/2; install libnghttp2-dev and compile Abaca again"
      end

      def initialize(options:, host: nil, port: nil, path: nil, fd: nil)
        @host = host
        @port = port
        @path = path
        @fd = fd
        proxies = options.slice(:proxy_protocol, :proxy_from)
        @options = options.merge(Proxies.listener(**proxies), h2c: self.class.h2c(options[:h2c])).freeze
        freeze
      end

      def unix? = !@path.nil?

      # @return [Boolean] whether the host is still unknown
      def hostless? = @host.nil? && !@port.nil?

      # @return [Bind] the same port on another host
      def with_host(host) = self.class.new(host:, port: @port, options: @options)

      # @return [String] the URL without its options
      def to_s
        return "unix://#{@path}" if unix?
        return "fd://#{@fd}" if @fd

        "tcp://#{@host&.include?(':') ? "[#{@host}]" : @host}:#{@port}"
      end
    end
  end
end
