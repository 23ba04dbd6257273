# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What configuration files have set so far, and where. The files are evaluated in a DSL, whose variables and
      # methods they may take for themselves: so all that the server needs is here.
      class Draft
        # @return [Hash{Symbol => Object}]
        attr_reader :settings
        # @return [Hash{Symbol => Array<String>}] file and line of the calls that each setting has its value from
        attr_reader :places
        # @return [Plugins] those that the files name
        attr_reader :plugins
        # @return [Array<Array(Symbol, Proc)>] the blocks of `single` and `cluster`
        attr_reader :parts
        # @return [PumaConfiguration] what `Puma.cli_config` is while files are read, and `@config` in them; hooks find
        #   all settings in it
        attr_reader :configuration
        # @return [PumaOptions] `@options` in the files
        attr_reader :options

        # @param given [Hash{Symbol => Object}] what is known before the files are read, for #get
        # @param warnings [Array<String>]
        # @param plugins [Plugins]
        # @param overrides [Hash{Symbol => Object}] what counts more than the files
        def initialize(given, warnings, plugins, overrides)
          @given = given
          @warnings = warnings
          @plugins = plugins
          @settings = {}
          @places = {}
          @files = []
          @parts = []
          @options = PumaOptions.new(plugins.kept, set: method(:set)) { |name| get(name, DEFAULTS[name]) }
          @configuration = PumaConfiguration.new(command_line(overrides))
        end

        # What the table says about a value holds at once, while the line of the file is known.
        def set(name, value)
          @settings[name] = SETTINGS.fetch(name).check(value, @settings)
          @places[name] = [place].compact
        end

        # Adds to a setting that is a list.
        def add(name, *values)
          before = @places[name]
          set(name, [*@settings[name], *values])
          @places[name] = [*before, *@places[name]].uniq
        end

        # @param name [Symbol]
        # @param block [Proc, nil]
        # @param key [String, Symbol, nil]
        def add_hook(name, block, key = nil)
          raise ArgumentError, "#{name}: a block is needed" unless block

          add(name, Hook.new(block, name:, key:, data: @hook_data ||= HookData.new))
        end

        # @param mode [Symbol]
        # @param block [Proc, nil]
        def add_part(mode, block)
          raise ArgumentError, "#{mode}: a block is needed" unless block

          @parts << [mode, block]
        end

        # @return [Object] a setting, or the default
        def get(key, default = nil)
          key = OTHER_NAMES.fetch(key, key)
          @settings.fetch(key) { @given.fetch(key, default) }
        end

        # A warning with the line of the file that is being evaluated.
        def note(text) = @warnings << [place, text].compact.join(": ")

        # @return [String, nil] file and line of the call that is being evaluated
        def place
          location = caller_locations.find { |one| @files.include?(one.path) }
          "#{location.path}:#{location.lineno}" if location
        end

        # Reads a file.
        #
        # @yieldparam source [String] is to be evaluated
        # @raise [ConfigError] naming file and line
        def read(path)
          @files << path
          source = File.read(path)
          locate(path) { yield source }
        rescue SystemCallError => e
          raise ConfigError, "cannot read the configuration file: #{e.message}"
        end

        # Adds to every error of the block the line of the file that it came from.
        def locate(path)
          yield
        rescue Located
          raise
        rescue SyntaxError => e
          # Its message begins with file and line.
          raise Located, e.message.lines.first.chomp
        rescue StandardError, ScriptError => e
          frames = e.backtrace_locations || []
          index = frames.index { |frame| frame.path == path }
          where = index ? "#{path}:#{frames[index].lineno}" : path
          raise Located, "#{where}: #{text(e, (frames[index - 1] if index&.positive?))}"
        end

        private

        # What overrides the files: flags, and what a file sets in `@config.options`.
        def command_line(overrides)
          PumaOptions.new(@plugins.kept, set: ->(name, value) { overrides[name] = value }) do |name|
            overrides.key?(name) ? SETTINGS[name].check(overrides[name], {}) : get(name, DEFAULTS[name])
          end
        end

        # A message of Ruby's own does not name the setting. The method that the file has called is it.
        def text(error, called)
          message = error.message.lines.first.to_s.chomp
          return message if error.is_a?(ConfigError) || error.is_a?(ArgumentError)

          own = called&.path&.start_with?(__dir__) && DSL.public_method_defined?(called.base_label)
          "#{"#{called.base_label}: " if own}#{message} (#{error.class})"
        end

        # A ConfigError that already has a place.
        class Located < ConfigError; end
        private_constant :Located
      end
    end
  end
end
