# frozen_string_literal: true

module Abaca
  class Launcher
    # The places of the configuration that the process listens at. They are opened once, before anything serves: by a
    # server of this process, or by those of the workers that it forks.
    class Listeners
      # What is for the socket itself; the other options of a Bind are terms for its connections.
      OPENING = %i[backlog defer_accept reuse_port umask mode].freeze
      private_constant :OPENING

      # @param config [Config]
      # @param log [Log]
      def initialize(config, log)
        @config = config
        @log = log
        @opened = [] # of [Listener, Hash of terms]
      end

      # @return [self]
      # @raise [ConfigError] if one of the places cannot be listened at; then none is
      def open
        @config.binds.each do |bind|
          listeners(bind).each { |listener| @opened << [listener, bind.options.except(*OPENING)] }
        rescue SystemCallError => e
          raise ConfigError, "cannot listen on #{bind}: #{reason(e)}"
        end
        self
      rescue ConfigError
        close
        raise
      end

      # @return [Array<String>] where it listens
      def urls
        @urls ||= @opened.map { |listener,| Listener.url(listener.place, @config[:rack_url_scheme]) }
      end

      # Gives them to a server of this process, which closes them.
      #
      # @param server [Server]
      # @raise [ConfigError] if the terms of one have no meaning
      def add_to(server)
        urls # as long as they can be asked
        @opened.each { |listener, terms| server.add_listener(listener, **terms) }
      end

      # Closes those that no server of this process has, and removes the files of unix sockets that this process made.
      # Idempotent.
      def close = @opened.map(&:first).each(&:close)

      private

      def listeners(bind)
        options = bind.options.slice(*OPENING)
        if bind.unix? then [Listener.unix(bind.path, **options)]
        elsif bind.fd then [Listener.adopt(bind.fd)]
        else Listener.of_host(bind.host, bind.port, log: @log, dead_after: dead_after(bind), **options)
        end
      end

      def dead_after(bind) = Listener.dead_after(@config.limits.merge(bind.options.fetch(:limits, {})))

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
