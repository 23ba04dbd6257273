# frozen_string_literal: true

require_relative "../app_loader"

module Abaca
  class Launcher
    # The runner of a single process: one app, one server.
    class Single
      # Seconds that the server has to end after its own deadlines: it gives fibers 5 to unwind, and a foreign scheduler
      # 10 more.
      PATIENCE = 8
      GUEST_PATIENCE = 20
      private_constant :PATIENCE, :GUEST_PATIENCE

      # @return [Server]
      attr_reader :server

      # Loads the app. It comes first, so that an app that does not load never holds the port.
      #
      # @param config [Config]
      # @param app [#call, nil] in place of the rackup file
      # @param log [Log]
      # @raise [ConfigError] if the app does not load
      def initialize(config, app:, log:)
        @config = config
        @log = log
        @started_at = Time.now
        app ||= RailsBoot.with_mode(fibers? ? :fiber : :thread) { AppLoader.load(config[:rackup]) }
        @server = Server.new(app, config:, log:, show_errors: show_errors?)
      end

      # Takes the listeners, and warns of what in the app does not work on fibers.
      #
      # @param listeners [Listeners] that are open
      # @raise [ConfigError] if the terms of one have no meaning
      def listen(listeners)
        listeners.add_to(@server)
        warn_of_fibers if fibers?
      end

      # Serves until it is stopped.
      def run = @server.run

      # @param at_once [Boolean] or else gracefully
      def stop(at_once:) = at_once ? @server.halt : @server.stop

      # @param at_once [Boolean]
      # @return [Numeric, nil] seconds that #run may take after #stop; nil: as long as it wants
      def patience(at_once:)
        timeout = at_once ? 0 : @config[:shutdown_timeout]
        return unless timeout

        timeout += @config[:shutdown_delay] unless at_once
        timeout + (@server.native? ? PATIENCE : GUEST_PATIENCE)
      end

      # @return [Hash{Symbol => Object}] figures in Puma's shape
      def stats
        places = Control::PumaStats.places(@config)
        Control::PumaStats.single(@server.stats, places:, started_at: @started_at)
      end

      def close = @server.close

      private

      # A developer who starts the server from the command line sees errors where they occur.
      def show_errors? = @config[:show_errors].nil? ? @config.developing? : @config[:show_errors]

      # Whether any request can run beside others on its thread.
      def fibers? = !Config::Modes.threads_lead?(@config)

      # Finds only what is loaded by now.
      def warn_of_fibers
        FiberSafety.new.findings.each { |finding| @log.warn("#{finding} (docs/fiber_safety.md)") }
      end
    end
  end
end
