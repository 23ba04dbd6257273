# frozen_string_literal: true

require_relative "config/settings"
require_relative "config/stalls"
require_relative "config/tls"
require_relative "config/bind"
require_relative "config/dsl"
require_relative "config/loader"
require_relative "config/not_done"
require_relative "config/plugins"

module Abaca
  # Every setting of a server, checked and frozen: what one may be stands in the table of config/settings.rb, and Loader
  # joins the defaults with a configuration file and the command line.
  class Config
    # Most configurations do without these.
    autoload :Hook, File.expand_path("config/hook", __dir__)
    autoload :HookData, File.expand_path("config/hook", __dir__)
    autoload :Processors, File.expand_path("config/processors", __dir__)
    autoload :Report, File.expand_path("config/report", __dir__)

    DEVELOPMENT = %w[development test].freeze
    private_constant :DEVELOPMENT

    # The origin of what the caller gives.
    COMMAND_LINE = "command line"

    # Each fiber's stack takes two memory maps, and the kernel limits their number. Two fifths of them leave room for
    # everything else.
    MAP_COUNT = "proc/sys/vm/max_map_count"
    private_constant :MAP_COUNT

    class << self
      # @return [Integer] the most fibers that this machine's kernel allows
      def max_fibers_ceiling
        Integer(File.read(File.join(Platform.here.root, MAP_COUNT))) * 2 / 5
      rescue SystemCallError, ArgumentError
        65_530 * 2 / 5
      end
    end

    # @return [Array<String>] warnings for the user who starts the server
    attr_reader :warnings
    # @return [Plugins] what was made for the setting `plugins`
    attr_reader :plugins

    # @param values [Hash{Symbol => Object}] settings by name; the rest have their defaults
    # @param warnings [Array<String>] what came up while the settings were read
    # @param origins [Hash{Symbol => String}] where they come from: a file and its line, say
    # @param plugins [Plugins]
    # @raise [ConfigError] for an unknown name or a value out of range
    def initialize(values = {}, warnings: [], origins: {}, plugins: Plugins.new)
      values = values.transform_keys { |name| OTHER_NAMES.fetch(name, name) }
      unknown = values.keys.find { |name| !DEFAULTS.key?(name) }
      raise ConfigError, "unknown setting `#{unknown}'#{Values.suggestion(unknown, DEFAULTS.keys)}" if unknown

      @warnings = warnings.dup
      @plugins = plugins
      @origins = origins.dup.freeze
      @values = DEFAULTS.merge(values)
      SETTINGS.each_value { |setting| check(setting) }
      settle
      @values[:max_fibers] = Admission.max_fibers(@values[:max_fibers], self.class.max_fibers_ceiling, @warnings)
      check_modes
      check_dev_tls
      @binds = settled_binds.freeze
      @warnings |= NotDone.warnings(self)
      @values.freeze
      @warnings.freeze
      freeze
    end

    # @param name [Symbol]
    # @return [Object] the setting's value
    # @raise [KeyError] when there is no such setting
    def [](name) = @values.fetch(OTHER_NAMES.fetch(name, name))

    # @param name [Symbol] a hook
    # @return [Array<Hook>] those of the file, and those that gems have added since
    def hooks(name) = self[name] + @plugins.hooks(name)

    # @return [Hash{Symbol => Object}]
    def to_h = @values.dup

    # @param name [Symbol]
    # @return [String] where the setting's value comes from: "config/puma.rb:3", "variable WEB_CONCURRENCY",
    #   "command line" or "default"
    def origin(name) = @origins.fetch(name, "default")

    # @param name [Symbol]
    # @return [String, nil] the same for messages: nil for the command line, and for a default
    def place(name) = @origins[name] == COMMAND_LINE ? nil : @origins[name]

    # @param settings [Hash{Symbol => Object}] those that differ
    # @return [Config]
    # @raise [ConfigError] as for .new
    def with(settings)
      return self if settings.empty?

      self.class.new(@values.merge(settings), warnings: @warnings, origins: @origins, plugins: @plugins)
    end

    # @return [Hash{Symbol => Integer}] the limits alone
    def limits = @values.slice(*LIMITS.keys)

    # Where the server listens: the given places, or port 9292, in development and test on the loopback address only.
    #
    # @return [Array<Bind>]
    attr_reader :binds

    # @return [Array<String>] what `--check-config` says beside the warnings, and a start does not
    def remarks = NotDone.remarks(self)

    # @return [Boolean] whether workers are forked from the first one
    def reforks? = !@values[:fork_worker].nil? && Platform.here.has?(:subreaper)

    # @return [Boolean] whether the developer is the client in this environment
    def developing? = DEVELOPMENT.include?(@values[:environment])

    # @return [Boolean] whether a browser is offered a page: in development, where nothing else is said
    def dashboard?
      return @values[:dashboard] unless @values[:dashboard].nil?

      @values[:environment] == "development" && ENV["ABACA_DASHBOARD"] != "false"
    end

    # @return [ServerTiming, Boolean] who learns from responses where the time of a request went; true: each client
    def server_timing
      return @values[:server_timing] unless @values[:server_timing].nil?
      return true if @values[:environment] == "development"

      secret = @values[:server_timing_secret]
      secret ? ServerTiming.new(secret) : false
    end

    # @return [String] the address for ports without one
    def default_host
      @values[:default_host] || (developing? ? "127.0.0.1" : "0.0.0.0")
    end

    private

    def check(setting)
      @values[setting.name] = setting.check(@values[setting.name], @values)
    rescue ConfigError => e
      raise ConfigError, [place(setting.name), e.message].compact.join(": ")
    end

    # Gives what depends on other settings its value.
    def settle
      several = @values[:workers] > 1
      @values[:preload_app] = several && !@values[:prune_bundler] if @values[:preload_app].nil?
    end

    def check_modes
      warn_of_modes
      return unless Modes.threads_lead?(self) && given?(:fiber_scheduler)

      raise ConfigError, "fiber_scheduler: requests run on threads, not on fibers (mode :thread)"
    end

    def settled_binds
      binds = @values[:binds].empty? ? [Bind.tcp(nil, 9292)] : @values[:binds]
      binds = binds.map do |bind|
        bind = bind.with_tls(TLS.new) if @values[:dev_tls] && bind.port && !bind.tls && !bind.options[:redirect]
        bind.hostless? ? bind.with_host(default_host) : bind
      end
      secure = binds.find(&:tls)&.port
      binds.map { |bind| bind.options[:redirect] ? bind.redirecting(secure) : bind }
    end

    def check_dev_tls
      return unless @values[:dev_tls]
      raise ConfigError, "dev_tls: its certificate is for development and test only" unless developing?

      TLS.need_library
    end

    def warn_of_modes
      return if Modes.hybrid?(self)

      Modes::HYBRID.each do |name|
        @warnings |= ["`#{name}' has no effect without mode :hybrid or a hybrid route (docs/modes.md)"] if given?(name)
      end
    end

    def given?(name) = @values[name] != DEFAULTS[name]
  end
end
