# frozen_string_literal: true

require "active_support/ordered_options"

module Abaca
  # For Rails: the isolation level that fits the mode in which requests run.
  #
  #   config.abaca.mode = :fiber # or :thread or :hybrid; needed where the app is loaded before the server
  #
  # What the app says itself in config.active_support.isolation_level stays.
  class Railtie < ::Rails::Railtie
    MODES = Config::Modes::NAMES
    private_constant :MODES

    config.abaca = ActiveSupport::OrderedOptions.new

    # After the app's own files, and before ActiveSupport reads the setting, which it does when all is initialized.
    initializer "abaca.isolation_level", after: :load_config_initializers do |app|
      Railtie.isolate(app.config)
    end

    # Isolates by fiber when requests will run on fibers and the app has not chosen a level.
    #
    # @param config [#abaca, #active_support] the app's configuration
    # @return [nil]
    # @raise [ConfigError] for a mode that is none
    def self.isolate(config)
      mode = (config.abaca.mode || RailsBoot.mode)&.to_sym
      return if mode.nil?
      raise ConfigError, "config.abaca.mode: #{mode.inspect} is not one of #{MODES.inspect}" unless MODES.include?(mode)

      config.active_support.isolation_level ||= :fiber unless mode == :thread
      nil
    end
  end
end
