# frozen_string_literal: true

require_relative "dsl/control"
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
            define_method(name) { |key = nil, &block| add_hook(setting.name, block, key) }
          else
            define_method(name) { |&block| add_hook(setting.name, block) }
          end
        end
      end

      SETTINGS.each_value do |setting|
        setting.methods_of_file.each do |name|
          next if method_defined?(name)

          if setting.hook?
            define_hook(name, setting)
          elsif setting.switch?
            define_method(name) { |enabled = true| set(setting.name, enabled) }
          else
            define_method(name) { |value| set(setting.name, value) }
          end
        end
      end

      # @param options [Hash{Symbol => Object}] what is known before the file is read, for `get`
      # @param warnings [Array<String>] takes one line for each setting that has no effect
      # @param plugins [Plugins] takes those that the files name
      # @param overrides [Hash{Symbol => Object}] what counts more than the files
      def initialize(options = {}, warnings: [], plugins: Plugins.new, overrides: {})
        @given = options
        @plugins = plugins
        @overrides = overrides
        @options = {}
        @places = {}
        @warnings = warnings
        @files = []
        @parts = []
        PumaConfiguration.current = PumaConfiguration.new(command_line)
      end

      # @return [Hash{Symbol => Object}] what the files set
      def to_h = @options.dup

      # @return [Hash{Symbol => Array<String>}] file and line of the calls that each setting has its value from
      def places = @places.dup

      # Evaluates a file and those that it loads.
      #
      # @param path [String]
      # @raise [ConfigError] naming file and line
      def evaluate_file(path)
        @files << path
        source = File.read(path)
        locate(path) { EVALUATION.call(self, source, path) }
      rescue SystemCallError => e
        raise ConfigError, "cannot read the configuration file: #{e.message}"
      end

      private

      # What `Puma.cli_config` has while files are read; it counts more than they do.
      def command_line
        PumaOptions.new(@plugins.kept, set: ->(name, value) { @overrides[name] = value }) do |name|
          @overrides.key?(name) ? SETTINGS[name].check(@overrides[name], {}) : get(name, DEFAULTS[name])
        end
      end

      # What the table says about a value holds at once, while the line of the file is known.
      def set(name, value)
        @options[name] = SETTINGS.fetch(name).check(value, @options)
        @places[name] = [place].compact
      end

      # To those of a list.
      def add(name, *values)
        before = @places[name]
        set(name, [*@options[name], *values])
        @places[name] = [*before, *@places[name]].uniq
      end

      def add_hook(name, block, key = nil)
        raise ArgumentError, "#{name}: a block is needed" unless block

        add(name, Hook.new(block, name:, key:, data: @hook_data ||= HookData.new))
      end

      # A setting that a plugin has added.
      def method_missing(name, ...)
        return @plugins.set(self, name, ...) if @plugins.setting?(name)

        plugin = @options[:plugins]&.find { |one| name.start_with?("#{one}_") }
        return note("`#{name}' has no effect: plugin #{plugin} is not run") if @plugins.troubles.key?(plugin)

        known = DSL.public_instance_methods(true) - Object.public_instance_methods
        raise ConfigError, "unknown setting `#{name}'#{Values.suggestion(name, known)}"
      end

      def respond_to_missing?(name, *) = @plugins.setting?(name)

      # Adds to every error of the block the line of the file that it came from.
      def locate(path)
        yield
      rescue Located
        raise
      rescue SyntaxError => e
        # Its message begins with file and line.
        raise Located, e.message.lines.first.chomp
      rescue StandardError, ScriptError => e
        text = e.is_a?(ConfigError) || e.is_a?(ArgumentError) ? e.message : "#{e.message} (#{e.class})"
        raise Located, "#{[path, line_of(path, e.backtrace_locations)].compact.join(':')}: #{text.lines.first&.chomp}"
      end

      def line_of(path, locations)
        locations&.find { |location| location.path == path }&.lineno
      end

      # A warning with the line of the file that is being evaluated.
      def note(text) = @warnings << [place, text].compact.join(": ")

      # File and line of the call that is being evaluated.
      def place
        location = caller_locations.find { |one| @files.include?(one.path) }
        "#{location.path}:#{location.lineno}" if location
      end

      # A ConfigError that already has a place.
      class Located < ConfigError; end
      private_constant :Located
    end
  end
end
