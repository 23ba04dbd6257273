# frozen_string_literal: true

require "active_support/lazy_load_hooks"
require "active_support/ordered_options"
require_relative "default_handler"

module Abaca
  # For Rails: sets the isolation level for the mode in which requests run and the answers for requests that the
  # server ends, and makes `rails server` and system tests find a server without Puma.
  #
  #   config.abaca.mode = :fiber # or :thread or :hybrid; needed where the app is loaded before the server
  #
  # A level that the app sets in config.active_support.isolation_level stays.
  class Railtie < ::Rails::Railtie
    MODES = Config::Modes::NAMES
    # By the names of exceptions; Rails rescues them all, and answers 500 by default.
    ANSWERS = { "Abaca::DeadlineExceeded" => :gateway_timeout, "Abaca::Shutdown" => :service_unavailable,
                "Abaca::EndedByOperator" => :service_unavailable }.freeze
    private_constant :MODES

    config.abaca = ActiveSupport::OrderedOptions.new

    # After the app's own files, and before Active Support reads the setting, whose block is registered later. An
    # initializer `after: :load_config_initializers' would have Rails run the app's before those of Active Record.
    config.after_initialize { |app| Railtie.isolate(app.config) }

    # Before Action Dispatch reads the setting.
    initializer "abaca.rescue_responses", before: "action_dispatch.configure" do |app|
      Railtie.answer(app.config) if app.config.respond_to?(:action_dispatch)
    end

    DefaultHandler.offer

    # Before the app's first connection, which may be older than the server.
    ActiveSupport.on_load(:active_record_sqlite3adapter) { Compat::SqliteWaits.use_handlers }

    # Capybara's server is Abaca then, unless the app has chosen one. It comes before Rails chooses Puma.
    initializer "abaca.system_tests" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) { Railtie.serve_system_tests }
    end

    # @return [nil]
    def self.serve_system_tests
      require_relative "capybara"
      return if Gem.loaded_specs.key?("puma") || Capybara.server != Capybara.servers[:default]

      Capybara.server = :abaca, { Silent: ActionDispatch::SystemTesting::Server.silence_puma }
      nil
    end

    # Makes Rails answer requests that the server ends as the server does, unless the app says otherwise.
    #
    # @param config [#action_dispatch] the app's configuration
    # @return [nil]
    def self.answer(config)
      config.action_dispatch.rescue_responses = ANSWERS.merge(config.action_dispatch.rescue_responses)
      nil
    end

    # Isolates by fiber if requests will run on fibers and the app has not chosen a level.
    #
    # @param config [#abaca, #active_support] the app's configuration
    # @return [nil]
    # @raise [ConfigError] for an unknown mode
    def self.isolate(config)
      mode = (config.abaca.mode || RailsBoot.mode)&.to_sym
      return if mode.nil?
      raise ConfigError, "config.abaca.mode: #{mode.inspect} is not one of #{MODES.inspect}" unless MODES.include?(mode)

      config.active_support.isolation_level ||= :fiber unless mode == :thread
      nil
    end
  end
end
