# frozen_string_literal: true

require_relative "../errors"

module Abaca
  class Control
    # Where a control server is reached:
    #
    #   unix:///run/app/control.sock    a socket that only its owner may connect to; `?umask=0007` or `?mode=660` says
    #                                   who else
    #   unix://@name                    an abstract socket
    #   tcp://127.0.0.1:9293            a port
    #   auto                            a unix socket in a temporary folder
    #
    # Everything but `auto` is also where `abacactl` connects to.
    class Address
      TCP = %r{\Atcp://(?<host>\[[^\]/?#]+\]|[^\[\]:/?#]+):(?<port>\d{1,5})/?(?:\?(?<query>.*))?\z}
      UNIX = %r{\Aunix:(?://|(?=/[^/]))(?<path>[^?]+)(?:\?(?<query>.*))?\z}
      # Only the owner may connect.
      MODE = 0o600
      private_constant :TCP, :UNIX, :MODE

      # @return [String, nil] a name or address without brackets
      attr_reader :host
      # @return [Integer, nil]
      attr_reader :port
      # @return [String, nil] of a unix socket; an abstract one begins with @
      attr_reader :path
      # @return [Integer, nil] permissions of the socket's file
      attr_reader :mode

      class << self
        # @param url [String]
        # @return [Address]
        # @raise [ConfigError] when it is not a URL of this grammar
        def parse(url)
          return new(auto: true) if url == "auto"

          if (match = UNIX.match(url))
            new(path: match[:path].gsub("%20", " "), mode: mode(url, match[:query]))
          elsif (match = TCP.match(url)) && match[:port].to_i <= 65_535
            new(host: match[:host].delete_prefix("[").delete_suffix("]"), port: match[:port].to_i)
          else
            raise ConfigError, "control URL #{url}: #{trouble(url)}"
          end
        end

        private

        def trouble(url)
          return "unix:///path, tcp://127.0.0.1:PORT or auto is needed" unless url.start_with?("ssl://")

          "the control server has no TLS; use a unix socket, or tcp://127.0.0.1:PORT through a tunnel"
        end

        def mode(url, query)
          words = query.to_s.split("&").to_h { |pair| pair.partition("=").values_at(0, 2) }
          unknown = (words.keys - %w[mode umask]).first
          raise ConfigError, "control URL #{url}: unknown parameter #{unknown}" if unknown
          return octal(url, words["mode"]) if words["mode"]

          words["umask"] ? 0o777 & ~octal(url, words["umask"]) : MODE
        end

        def octal(url, text)
          number = Integer(text, 8, exception: false)
          return number if number&.between?(0, 0o777)

          raise ConfigError, "control URL #{url}: #{text} is not an octal number up to 777"
        end
      end

      def initialize(host: nil, port: nil, path: nil, mode: nil, auto: false)
        @host = host
        @port = port
        @path = path
        @mode = mode
        @auto = auto
        freeze
      end

      # @return [Boolean] whether a unix socket's path is still to be chosen
      def auto? = @auto

      # @return [Boolean] whether it is on this machine only, as are all unix sockets
      def local? = @host.nil? || loopback?(@host)

      # @return [Boolean] whether a unix socket has no file, and so no permissions
      def abstract? = @path.to_s.start_with?("@")

      # @return [Boolean] whether it is a unix socket that is its owner's alone
      def private? = auto? || abstract? || (!@path.nil? && @mode.nobits?(0o077))

      # @return [String] the URL without options
      def to_s
        return "auto" if auto?
        return "unix://#{@path}" if @path

        "tcp://#{@host.include?(':') ? "[#{@host}]" : @host}:#{@port}"
      end

      private

      def loopback?(host)
        require "ipaddr" # where there is a control URL
        host == "localhost" || IPAddr.new(host).loopback?
      rescue IPAddr::Error
        false
      end
    end
  end
end
