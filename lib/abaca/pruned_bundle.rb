# frozen_string_literal: true

require "rbconfig"
require "shellwords"

module Abaca
  # The setting `prune_bundler`: the master runs outside of the app's bundle, and without RubyGems, so that it holds no
  # version of any gem; each worker enters the bundle by itself. So a phased restart takes a changed Gemfile.
  #
  # The command is executed anew for that (.leave), with what a hot restart needs to know of the first start in a
  # variable of the environment.
  module PrunedBundle
    # How the command was started: its words, as the shell would write them.
    WORDS = "ABACA_PRUNED_WORDS"
    # What stood in the environment then and does not now: NAME=value, as the shell would write them.
    CHANGED = "ABACA_PRUNED_ENVIRONMENT"
    # Folders of the gems that the master needs all the same.
    PATHS = "ABACA_PRUNED_PATHS"
    # What Bundler makes of the environment.
    KEPT = "BUNDLER_ORIG_"
    UNSET = "BUNDLER_ENVIRONMENT_PRESERVER_INTENTIONALLY_NIL"
    # What RubyGems loads at the start of every other program, where Ruby has it.
    USUAL = %w[error_highlight did_you_mean syntax_suggest/core].freeze
    COMMAND = File.expand_path("../../exe/abaca", __dir__)
    LIBRARY = File.expand_path("..", __dir__)
    private_constant :KEPT, :UNSET, :USUAL, :COMMAND, :LIBRARY

    class << self
      # Executes the command anew outside of the bundle. Returns if that is not wanted, or has been done.
      #
      # @param config [Config]
      # @param argv [Array<String>] arguments of the command
      # @param signals [Launcher::Signals] those that were caught are held for the new program
      # @raise [ConfigError] if an extra dependency is not in the bundle, or the program cannot be executed
      def leave(config, argv, signals)
        return if left? || !wanted?(config) || !bundled?

        require_relative "launcher/origin"
        origin = Launcher::Origin.new(argv:)
        environment = environment_outside(origin.environment)
        environment.update(WORDS => Shellwords.join(origin.words), CHANGED => changes(origin.environment, environment),
                           PATHS => paths_of(config[:extra_runtime_dependencies]).join(File::PATH_SEPARATOR))
        signals.hold do
          Process.exec(signals.for_next(environment), [RbConfig.ruby, RbConfig.ruby], "--disable=gems", COMMAND, *argv,
                       unsetenv_others: true, close_others: false)
        end
      rescue SystemCallError => e
        raise ConfigError, "prune_bundler: #{e.message}"
      end

      # @return [Boolean] whether this process, or its master, runs outside of the bundle
      def left? = ENV.key?(WORDS)

      # @param config [Config]
      # @return [Boolean] whether the setting means anything here
      def wanted?(config) = config[:prune_bundler] && config[:workers].positive? && !config[:preload_app]

      # The folders of the extra dependencies can be required from. Before anything else is loaded.
      def use_extra_paths
        $LOAD_PATH.concat(ENV.fetch(PATHS, "").split(File::PATH_SEPARATOR))
      end

      # Enters, in a worker, the bundle that the working directory, or BUNDLE_GEMFILE, leads to now, even if the command
      # was started without one. If there is none, RubyGems alone is loaded.
      #
      # @param config [Config]
      # @param log [Log]
      # @raise [ConfigError] if the bundle cannot be used
      def enter(config, log)
        return if bundled? || !wanted?(config)

        restore if left?
        use_bundle(log)
      end

      # @param environment [Hash{String => String}] of a process that has left its bundle
      # @return [Hash{String => String}] of its first start
      def environment_of_start(environment)
        environment.except(WORDS, CHANGED, PATHS).merge(remembered_environment(environment))
      end

      # @return [Array<String>, nil] the words of the first start; nil in a process that has not left its bundle
      def words_of_start = ENV.key?(WORDS) ? Shellwords.split(ENV.fetch(WORDS)) : nil

      private

      # What .leave has taken from the process.
      def restore
        ENV.update(remembered_environment)
        [WORDS, CHANGED, PATHS].each { |name| ENV.delete(name) }
        require "rubygems"
        USUAL.each { |name| require_if_there(name) }
      end

      def bundled? = defined?(::Bundler) && $LOADED_FEATURES.any? { |path| path.end_with?("/bundler/setup.rb") }

      def remembered_environment(environment = ENV)
        Shellwords.split(environment[CHANGED] || "").to_h { |pair| pair.split("=", 2) }
      end

      # As it would be without `bundle exec`.
      def environment_outside(environment)
        kept = environment.select { |name, _| name.start_with?(KEPT) }
                          .transform_keys { |name| name.delete_prefix(KEPT) }
        given, unset = kept.partition { |_, value| value != UNSET }.map(&:to_h)
        outside = environment.merge(given).reject { |name, _| unset.key?(name) || name.start_with?("BUNDLER_") }
        options = outside["RUBYOPT"]&.split&.grep_v(%r{\A-r.*bundler/setup\z})
        options.nil? || options.empty? ? outside.except("RUBYOPT") : outside.merge("RUBYOPT" => options.join(" "))
      end

      def changes(before, after)
        Shellwords.join(before.reject { |name, value| after[name] == value }.map { |pair| pair.join("=") })
      end

      # Of these gems, and of those that they need.
      def paths_of(names)
        specs = {}
        queue = names.map(&:to_s)
        while (name = queue.shift)
          next if specs.key?(name)

          spec = Gem.loaded_specs[name] or raise ConfigError, "extra_runtime_dependencies: #{name} is not in the bundle"
          specs[name] = spec
          queue.concat(spec.runtime_dependencies.map(&:name) & Gem.loaded_specs.keys)
        end
        specs.values.flat_map(&:full_require_paths)
      end

      def require_if_there(name)
        require name
      rescue LoadError
        nil
      end

      def use_bundle(log)
        require "bundler"
        ::Bundler.setup
        log.info("+ Gemfile in context: #{::Bundler.default_gemfile}")
      rescue LoadError, ::Bundler::GemfileNotFound => e
        log.info("+ no bundle: #{e.message.lines.first&.chomp}")
      rescue ::Bundler::BundlerError => e
        raise ConfigError, "the bundle cannot be used: #{e.message.lines.first&.chomp}"
      else
        # What is loaded of Abaca already stays what it is, whatever version the bundle has.
        $LOAD_PATH.unshift(LIBRARY)
      end
    end
  end
end
