# frozen_string_literal: true

module Abaca
  class Config
    # Joins the levels of a configuration: the command line overrides the file, the file overrides environment
    # variables, and these override the defaults.
    class Loader
      # Each of these names the environment; the first one that is set counts.
      ENVIRONMENT_VARIABLES = %w[APP_ENV RACK_ENV RAILS_ENV].freeze
      # Settings, and variables that have them; the first one that is set counts.
      VARIABLES = { environment: ENVIRONMENT_VARIABLES, script_name: %w[SCRIPT_NAME], workers: %w[WEB_CONCURRENCY],
                    persistent_timeout: %w[PUMA_PERSISTENT_TIMEOUT] }.freeze
      # Switches, and variables that turn them on, whatever their value.
      SWITCHES = { clean_thread_locals: "PUMA_FIBER_PER_REQUEST", debug: "PUMA_DEBUG",
                   log_config: "PUMA_LOG_CONFIG" }.freeze
      # Ruby's switch for M:N threads.
      MN_THREADS = "RUBY_MN_THREADS"
      # The least and the most threads, read as Puma does.
      THREAD_VARIABLES = [%w[PUMA_MIN_THREADS MIN_THREADS], %w[PUMA_MAX_THREADS MAX_THREADS]].freeze

      # @param options [Hash{Symbol => Object}] settings of the command line
      # @param files [Array<String>, nil] configuration files; none for []; nil looks for one
      # @param env [#[]] the environment's variables
      # @param defaults [Hash{Symbol => Object}] settings that nothing else sets
      # @param dir [String] where configuration files are looked for
      # @param warnings [Array<String>] what has come up before
      def initialize(options = {}, files: nil, env: ENV, dir: Dir.pwd, defaults: {}, warnings: [])
        @options = options.dup
        @defaults = defaults
        @files = files
        @env = env
        @dir = dir
        @warnings = [*warnings, *mn_threads]
      end

      # @return [Config]
      # @raise [ConfigError] with the line of the file where there is one
      def load
        PumaNames.define
        base = @defaults.merge(variables)
        environment = @options[:environment] || base[:environment] || DEFAULTS[:environment]
        plugins = Plugins.new
        dsl = DSL.new({ environment: }, warnings: @warnings, plugins:, overrides: @options)
        @options[:plugins]&.each { |name| plugins.add(name, dsl) } # files may use their settings
        (@files || find(environment)).each { |path| dsl.evaluate_file(path) }
        dsl.evaluate_parts(workers(base.merge(dsl.to_h, @options)))
        Config.new(merge(base, dsl.to_h), warnings: @warnings, origins: origins(dsl), plugins:)
              .tap { |config| dsl.settle(config) }
      end

      private

      def mn_threads
        return unless @env[MN_THREADS].to_i.positive?

        "variable #{MN_THREADS}: M:N threads are not supported, and may crash the process: unset it"
      end

      # Plugins of the command line and of the files add up.
      def merge(base, file)
        plugins = [*file[:plugins], *@options[:plugins]]
        base.merge(file, @options, plugins.empty? ? {} : { plugins: })
      end

      def origins(dsl)
        variables = @variables.transform_values { |names| "variable #{names.join(', ')}" }
        file = dsl.places.transform_values { |places| places.join(", ") }
        given = @options.to_h { |name, _| [OTHER_NAMES.fetch(name, name), Config::COMMAND_LINE] }
        file[:plugins] = [given.delete(:plugins), file[:plugins]].compact.join(", ") if @options[:plugins]
        variables.merge(file, given)
      end

      def workers(settings) = SETTINGS.fetch(:workers).check(settings[:workers], settings)

      # The variables that are set, by setting; @variables has their names.
      def variables
        @variables = {}
        values = VARIABLES.to_h { |name, names| [name, value_of(name, names)] }
        values[:workers] = values[:workers]&.strip
        values[:threads] = threads
        SWITCHES.each { |name, variable| values[name] = value_of(name, [variable]) && true }
        values.compact.to_h { |name, value| [name, check(name, value)] }
      end

      def check(name, value)
        SETTINGS.fetch(name).check(value, {})
      rescue ConfigError => e
        raise ConfigError, "variable #{@variables[name].join(', ')}: #{e.message}"
      end

      def threads
        given = THREAD_VARIABLES.map { |names| value_of(:threads, names) }
        given.zip(DEFAULTS[:threads]).map { |value, default| value || default } if given.any?
      end

      # An empty one is not set.
      def value_of(setting, names)
        name = names.find { |one| !@env[one].to_s.strip.empty? } or return
        (@variables[setting] ||= []) << name
        @env[name]
      end

      def find(environment)
        candidates = ["config/abaca/#{environment}.rb", "config/abaca.rb",
                      "config/puma/#{environment}.rb", "config/puma.rb"]
        [candidates.find { |path| File.file?(File.join(@dir, path)) }].compact.map do |path|
          @dir == Dir.pwd ? path : File.join(@dir, path)
        end
      end
    end
  end
end
