# frozen_string_literal: true

module Abaca
  class Launcher
    class Plugins
      # The launcher as plugins see it: Puma::Launcher's methods.
      class ForPlugins
        # @return [LogWriter]
        attr_reader :log_writer
        # @return [Puma::Events]
        attr_reader :events
        # @return [PumaOptions]
        attr_reader :options
        # @return [PumaConfiguration]
        attr_reader :config
        # @return [String] where a restart begins
        attr_reader :restart_dir

        # @param launcher [Launcher]
        # @param log [Log]
        # @param events [Puma::Events]
        # @param options [PumaOptions]
        def initialize(launcher, log:, events:, options:)
          @launcher = launcher
          @log_writer = LogWriter.new(log, logger: options[:custom_logger])
          @events = events
          @options = options
          @config = PumaConfiguration.new(options)
          @restart_dir = Dir.pwd
        end

        # @return [Hash{Symbol => Object}] figures in Puma's shape
        def stats = @launcher.stats

        # Stops gracefully.
        def stop = @launcher.stop

        # Stops at once.
        def halt = @launcher.halt

        # Executes the program anew.
        def restart = @launcher.restart

        # Replaces the workers; or else restarts, as Puma does.
        def phased_restart = @launcher.renew

        # @return [Boolean] whether workers are forked anew from worker 0
        def refork = @launcher.refork

        # @return [Array<Integer>] the TCP ports
        def connected_ports = @launcher.urls.filter_map { |url| url[/:(\d+)\z/, 1]&.to_i }

        # @yieldparam name [String] of each thread
        # @yieldparam backtrace [Array<String>]
        def thread_status
          Thread.list.each do |thread|
            yield "Thread: TID-#{thread.object_id.to_s(36)} #{thread.name}".strip, thread.backtrace || []
          end
        end
      end
    end
  end
end
