# frozen_string_literal: true

module Abaca
  class Config
    # The plugins of a configuration, made for Puma: each is made at the line that names it, so that the settings that
    # it adds are known to the lines below. The launcher runs them (Launcher::Plugins).
    class Plugins
      autoload :Settings, File.expand_path("plugins/settings", __dir__)

      # What does not happen when one of them does not run.
      LOST = {
        "solid_queue" => "jobs will not be processed",
        "appsignal" => "AppSignal gets no figures of the server",
        "statsd" => "StatsD gets no figures of the server",
        "telemetry" => "its targets get no figures of the server",
        "yabeda" => "Yabeda gets no figures of the server",
        "yabeda_prometheus" => "Yabeda's figures have no port of their own"
      }.freeze
      OTHERS = "what it does will not happen"
      private_constant :LOST, :OTHERS

      class << self
        # @param name [String]
        # @return [String] what does not happen without this plugin
        def lost(name) = LOST.fetch(name, OTHERS)

        # @param name [String]
        # @param error [Exception, String] why it is not run
        # @return [String] a line for the log
        def trouble(name, error)
          why = error.is_a?(String) ? error : "#{error.message.lines.first&.chomp} (#{error.class})"
          "plugin #{name} is not run: #{why}; #{lost(name)}"
        end
      end

      # @return [Hash{String => Object}] the plugins by name
      attr_reader :instances
      # @return [Hash{String => String}] those that cannot run, and why
      attr_reader :troubles
      # @return [Hash{Symbol => Object}] what they keep in their settings
      attr_reader :kept

      def initialize
        @instances = {}
        @troubles = {}
        @kept = {}
      end

      # Makes a plugin, once. One that cannot be made is a trouble.
      #
      # @param name [String]
      # @param dsl [DSL] that the plugin may call
      # @param place [String, nil] file and line that name it
      # @raise [ConfigError] that its calls raise
      def add(name, dsl, place = nil)
        return if Types::Names::BUILT_IN.include?(name) || @instances.key?(name) || @troubles.key?(name)

        plugin = ::Puma::Plugins.find(name).new
        plugin.config(dsl) if plugin.respond_to?(:config)
        @instances[name] = plugin
      rescue ConfigError
        raise
      rescue StandardError, ScriptError => e
        @troubles[name] = [place, Plugins.trouble(name, cause(e))].compact.join(": ")
      end

      # @param name [Symbol]
      # @return [Boolean] whether a plugin has added such a setting
      def setting?(name) = !@instances.empty? && ::Puma::DSL.public_method_defined?(name)

      # @param name [Symbol] a hook
      # @return [Array<Hook>] those that gems have added to Puma's options
      def hooks(name)
        [@kept[name]].flatten(1).compact.map do |one|
          next Hook.new(one, name:) unless one.is_a?(Hash)

          Hook.new(one[:block], name:, key: one[:id], data: @hook_data ||= HookData.new)
        end
      end

      # Calls it.
      def set(dsl, options, name, ...) = (@settings ||= Settings.for(dsl, options)).public_send(name, ...)

      private

      def cause(error)
        error.is_a?(::Puma::UnknownPlugin) ? error.message : error
      end
    end
  end
end
