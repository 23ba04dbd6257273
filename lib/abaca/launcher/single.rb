# frozen_string_literal: true

require_relative "app"
require_relative "liveness"

module Abaca
  class Launcher
    # The runner of a single process: one app, one server.
    class Single
      # Seconds that the server has to end after its own deadlines: it gives fibers 5 to unwind, and a foreign scheduler
      # 10 more.
      PATIENCE = 8
      GUEST_PATIENCE = 20
      private_constant :PATIENCE, :GUEST_PATIENCE

      # @param config [Config]
      # @param at_once [Boolean]
      # @return [Numeric, nil] seconds that a server may take to end; nil: as long as it wants
      def self.patience(config, at_once:)
        timeout = at_once ? 0 : config[:shutdown_timeout]
        return unless timeout

        timeout += config[:shutdown_delay] unless at_once
        timeout + (SchedulerClass.of(config[:fiber_scheduler]) <= Scheduler ? PATIENCE : GUEST_PATIENCE)
      end

      # @return [Server]
      attr_reader :server

      # Loads the app. It comes first, so that an app that does not load never holds the port.
      #
      # @param config [Config]
      # @param app [#call, nil] in place of the rackup file
      # @param log [Log]
      # @param slot [Page::Slot, nil] where the server says how it is; #lively? needs it
      # @param options [Hash{Symbol => Object}] for Server.new
      # @raise [ConfigError] if the app does not load
      def initialize(config, app:, log:, slot: nil, **options)
        @config = config
        @log = log
        @started_at = Time.now
        @liveness = Liveness.new(slot, Config::Modes.places(config)) if slot
        @server = Server.new(app || App.load(config, log), config:, log:, slot:, show_errors: show_errors?, **options)
      end

      # @return [String] what is logged when it stops gracefully
      def parting = "- Gracefully stopping, waiting for requests to finish"

      # Takes the listeners, and warns of what in the app does not work on fibers.
      #
      # @param listeners [Listeners] that are open
      # @raise [ConfigError] if the terms of one have no meaning
      def listen(listeners)
        listeners.add_to(@server)
        warn_of_fibers if App.fibers?(@config)
      end

      # Serves until it is stopped.
      #
      # @yield before
      def run
        yield if block_given?
        @server.run
      end

      # @param at_once [Boolean] or else gracefully
      def stop(at_once:) = at_once ? @server.halt : @server.stop

      # Drains, while others continue with the listeners.
      def hand_over = @server.hand_over

      # @param at_once [Boolean]
      # @return [Numeric, nil] seconds that #run may take after #stop; nil: as long as it wants
      def patience(at_once:) = self.class.patience(@config, at_once:)

      # Writes into the log what every request waits for. A trap handler may call it.
      def dump = @log.dump(@server.dump)

      # Nothing is left beside this process when it ends.
      def kill; end

      # It has no workers to change or replace.
      #
      # @return [Boolean] false
      def phased_restart = false

      # The same.
      #
      # @return [Boolean] false
      def refork = false

      # As a worker: takes certificates that the master has read anew.
      #
      # @param keeper [TLS::Keeper]
      def follow(keeper)
        @server.each_second { keeper.follow { |old, new| @server.replace_tls(old, new) } }
      end

      # @return [Hash{Symbol => Object}] figures in Puma's shape
      def stats
        places = Config::Modes.places(@config)
        Control::PumaStats.single(@server.stats, places:, started_at: @started_at)
      end

      # @param limit [Float] seconds
      # @return [Boolean] whether it has served within them, as far as it can be known
      def lively?(limit) = @liveness.nil? || @liveness.within?(limit)

      def close = @server.close

      private

      # A developer who starts the server from the command line sees errors where they occur.
      def show_errors? = @config[:show_errors].nil? ? @config.developing? : @config[:show_errors]

      # Finds only what is loaded by now.
      def warn_of_fibers
        FiberSafety.new.findings.each { |finding| @log.warn("#{finding} (docs/fiber_safety.md)") }
      end
    end
  end
end
