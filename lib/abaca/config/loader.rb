# frozen_string_literal: true

module Abaca
  class Config
    # Joins the levels of a configuration: the command line overrides the file, the file overrides environment
    # variables, and these override the defaults.
    class Loader
      # Each of these names the environment; the first one that is set counts.
      ENVIRONMENT_VARIABLES = %w[APP_ENV RACK_ENV RAILS_ENV].freeze
      # The least and the most threads, read as Puma does.
      THREAD_VARIABLES = [%w[PUMA_MIN_THREADS MIN_THREADS], %w[PUMA_MAX_THREADS MAX_THREADS]].freeze

      # @param options [Hash{Symbol => Object}] settings of the command line
      # @param files [Array<String>, nil] configuration files; none for []; nil looks for one
      # @param env [#[]] the environment's variables
      # @param defaults [Hash{Symbol => Object}] settings that nothing else sets
      # @param dir [String] where configuration files are looked for
      # @param warnings [Array<String>] what has come up before
      def initialize(options = {}, files: nil, env: ENV, dir: Dir.pwd, defaults: {}, warnings: [])
        @options = options
        @defaults = defaults
        @files = files
        @env = env
        @dir = dir
        @warnings = warnings.dup
      end

      # @return [Config]
      # @raise [ConfigError] with the line of the file where there is one
      def load
        base = @defaults.merge(variables)
        environment = @options[:environment] || base[:environment] || DEFAULTS[:environment]
        dsl = DSL.new({ environment: }, warnings: @warnings)
        (@files || find(environment)).each { |path| dsl.evaluate_file(path) }
        dsl.evaluate_parts(workers(base.merge(dsl.to_h, @options)))
        Config.new(merge(base, dsl.to_h), warnings: @warnings)
      end

      private

      # Plugins of the command line and of the files add up.
      def merge(base, file)
        plugins = [*file[:plugins], *@options[:plugins]]
        base.merge(file, @options, plugins.empty? ? {} : { plugins: })
      end

      def workers(settings) = SETTINGS.fetch(:workers).check(settings[:workers], settings)

      def variables
        { environment: set(*ENVIRONMENT_VARIABLES), script_name: set("SCRIPT_NAME"),
          persistent_timeout: set("PUMA_PERSISTENT_TIMEOUT"), workers: set("WEB_CONCURRENCY")&.strip, threads: }.compact
      end

      def threads
        given = THREAD_VARIABLES.map { |names| set(*names) }
        given.zip(DEFAULTS[:threads]).map { |value, default| value || default } if given.any?
      end

      def set(*names) = names.map { |name| @env[name] }.find { |value| value && !value.strip.empty? }

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
