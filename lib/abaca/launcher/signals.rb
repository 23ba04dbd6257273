# frozen_string_literal: true

module Abaca
  class Launcher
    # Which signal does what; docs/signals.md has the same table in words. Handlers only request things: the native
    # loop wakes up and does the work.
    class Signals
      # INFO where the system has it, as on BSD and macOS.
      DUMP = Signal.list.key?("INFO") ? "INFO" : "PWR"

      # @param launcher [Launcher]
      # @param log [Log]
      def initialize(launcher, log)
        @launcher = launcher
        @log = log
        @previous = {}
      end

      # Installs the handlers, once the server listens.
      def trap
        set("INT") { @launcher.stop }
        set("TERM") { @launcher.stop }
        set("HUP") { @launcher.reopen || @launcher.stop }
        set(DUMP) { @launcher.dump }
        %w[USR1 USR2].each { |name| set(name) { @log.warn("#{name} has no effect: this version does not restart") } }
      end

      # Restores the previous handlers.
      def restore
        @previous.each { |name, handler| Signal.trap(name, handler || "DEFAULT") }
        @previous.clear
      end

      private

      def set(name, &)
        @previous[name] = Signal.trap(name, &)
      end
    end
  end
end
