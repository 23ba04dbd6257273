# frozen_string_literal: true

require_relative "../app_loader"

module Abaca
  class Launcher
    # The app of a configuration.
    module App
      # @param config [Config]
      # @param log [Log]
      # @return [#call] that of the rackup file
      # @raise [ConfigError] if it does not load
      def self.load(config, log)
        RailsBoot.with_mode(fibers?(config) ? :fiber : :thread) { AppLoader.load(config[:rackup], log) }
      end

      # Whether any request can run beside others on its thread.
      def self.fibers?(config) = !Config::Modes.threads_lead?(config)
    end
  end
end
