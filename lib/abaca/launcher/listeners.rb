# frozen_string_literal: true

module Abaca
  class Launcher
    # The places of the configuration that a server listens at.
    class Listeners
      # @param binds [Array<Config::Bind>]
      def initialize(binds)
        @binds = binds
      end

      # @param server [Server]
      # @raise [ConfigError] if one of them cannot be listened at
      def add_to(server)
        @binds.each do |bind|
          add(server, bind)
        rescue SystemCallError => e
          raise ConfigError, "cannot listen on #{bind}: #{reason(e)}"
        end
      end

      private

      def add(server, bind)
        if bind.unix?
          server.add_unix_listener(bind.path, **bind.options)
        elsif bind.fd
          server.add_listener_fd(bind.fd, **bind.options)
        else
          server.add_tcp_listener(bind.host, bind.port, **bind.options)
        end
      end

      def reason(error)
        case error
        when Errno::EADDRINUSE then "the address is in use by another process"
        when Errno::EACCES then "permission denied"
        else error.message
        end
      end
    end
  end
end
