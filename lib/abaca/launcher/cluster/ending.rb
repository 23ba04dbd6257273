# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # How long workers may take to end. A server answers what it cannot finish with 503 after `shutdown_timeout`;
      # `worker_shutdown_timeout`, where it is set, is the time until the kill, and the answers come before.
      class Ending
        # Seconds that a worker has when it is stopped at once.
        AT_ONCE = 8
        # The part of `worker_shutdown_timeout` that requests have.
        SHARE = 0.8
        private_constant :AT_ONCE, :SHARE

        # @param config [Config]
        def initialize(config)
          @config = config
        end

        # @return [Config] for the servers of workers
        def config_of_workers
          return @config unless limited?

          most = @config[:worker_shutdown_timeout] * SHARE
          @config.with(shutdown_timeout: [@config[:shutdown_timeout] || most, most].min)
        end

        # @param at_once [Boolean] or else gracefully
        # @return [Numeric, nil] seconds until a worker is killed; nil: never
        def patience(at_once:)
          if at_once then AT_ONCE
          elsif limited? then @config[:shutdown_delay] + @config[:worker_shutdown_timeout]
          else Single.patience(@config, at_once: false)
          end
        end

        private

        def limited? = @config[:worker_shutdown_timeout] != Config::DEFAULTS[:worker_shutdown_timeout]
      end
    end
  end
end
