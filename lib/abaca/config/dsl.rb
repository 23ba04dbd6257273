# frozen_string_literal: true

require_relative "dsl/control"
require_relative "dsl/draft"
require_relative "dsl/evaluation"
require_relative "dsl/listeners"
require_relative "dsl/limits"
require_relative "dsl/logging"
require_relative "dsl/modes"
require_relative "dsl/parts"
require_relative "dsl/process"
require_relative "dsl/puma"
require_relative "dsl/sight"

module Abaca
  class Config
    # What a configuration file is evaluated with: one method a setting, made from the table of settings. Those that
    # take more than a value have methods of their own, in the modules. Puma's names mean what they mean there; those
    # without a meaning here give a warning, and unknown ones and wrong values an error, both with the line.
    class DSL
      include Control
      include Listeners
      include Limits
      include Logging
      include DSL::Modes
      include Parts
      include ProcessSettings
      include PumaSettings
      include Sight

      DEFAULT_RACKUP = "Puma has no DefaultRackup since version 6: leave the line out, or write `rackup \"config.ru\"'"
      private_constant :DEFAULT_RACKUP

      class << self
        # Older files of Puma's name it.
        def const_missing(name)
          name == :DefaultRackup ? raise(ConfigError, DEFAULT_RACKUP) : super
        end

        private

        def define_hook(name, setting)
          if setting.type.keyed?
            define_method(name) { |key = nil, &block| @abaca.add_hook(setting.name, block, key) }
          else
            define_method(name) { |&block| @abaca.add_hook(setting.name, block) }
          end
        end
      end

      SETTINGS.each_value do |setting|
        setting.methods_of_file.each do |name|
          next if method_defined?(name)

          if setting.hook?
            define_hook(name, setting)
          elsif setting.switch?
            define_method(name) { |enabled = true| @abaca.set(setting.name, enabled) }
          else
            define_method(name) { |value| @abaca.set(setting.name, value) }
          end
        end
      end

      # @param options [Hash{Symbol => Object}] what is known before the file is read, for `get`
      # @param warnings [Array<String>] takes one line for each setting that has no effect
      # @param plugins [Plugins] takes those that the files name
      # @param overrides [Hash{Symbol => Object}] what counts more than the files
      def initialize(options = {}, warnings: [], plugins: Plugins.new, overrides: {})
        @abaca = Draft.new(options, warnings, plugins, overrides)
        @config = PumaConfiguration.current = @abaca.configuration
        @options = @abaca.options
      end

      # @return [Hash{Symbol => Object}] what the files set
      def to_h = @abaca.settings.dup

      # @return [Hash{Symbol => Array<String>}] file and line of the calls that each setting has its value from
      def places = @abaca.places.dup

      # Evaluates a file and those that it loads.
      #
      # @param path [String]
      # @raise [ConfigError] naming file and line
      def evaluate_file(path)
        @abaca.read(path) { |source| EVALUATION.call(self, source, path) }
      end

      # Shows hooks all settings, once the files are read.
      #
      # @param config [Config]
      def settle(config) = @abaca.configuration.options = PumaOptions.of(config)

      private

      # A setting that a plugin has added.
      def method_missing(name, ...)
        plugins = @abaca.plugins
        return plugins.set(self, @abaca.options, name, ...) if plugins.setting?(name)

        plugin = @abaca.settings[:plugins]&.find { |one| name.start_with?("#{one}_") }
        return @abaca.note("`#{name}' has no effect: plugin #{plugin} is not run") if plugins.troubles.key?(plugin)

        known = DSL.public_instance_methods(true) - Object.public_instance_methods
        raise ConfigError, "unknown setting `#{name}'#{Values.suggestion(name, known)}"
      end

      def respond_to_missing?(name, *) = @abaca.plugins.setting?(name)
    end
  end
end
