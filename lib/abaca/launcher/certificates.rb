# frozen_string_literal: true

module Abaca
  class Launcher
    # The certificates of the process, if it has any (docs/tls.md).
    module Certificates
      # Reads the certificates anew, and gives them to new connections.
      #
      # @return [Boolean] false if there are none
      # @raise [ConfigError] if one is of no use; then nothing has changed, and the log says so
      def reload_certificates
        return false unless @keeper

        @keeper.reload
        true
      end

      # What HUP does: the logs are opened anew, and the certificates read anew. A trap handler may call it.
      #
      # @return [Boolean] false if there is neither
      def refresh
        @keeper&.ask
        reopen || !@keeper.nil?
      end

      private

      # Before the process forks, and before the app may give up the right to read keys.
      def read_certificates
        return if @config.binds.none?(&:tls)

        @keeper = TLS::Keeper.new(@config, @log).read(shared: clustered?)
      end

      # Looks for new ones from now on.
      def watch_certificates
        @keeper&.watch { |old, new| @runner.server&.replace_tls(old, new) }
      end

      # @param stats [Hash{Symbol => Object}] of the runner
      # @return [Hash{Symbol => Object}] the same, with the days that are left
      def with_certificates(stats)
        return stats unless @keeper

        stats.merge(abaca: stats[:abaca].merge(certificates: @keeper.figures))
      end
    end
  end
end
