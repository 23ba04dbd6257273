# frozen_string_literal: true

require "rack"
require_relative "config/admission"
require_relative "config/http_methods"
require_relative "config/stalls"
require_relative "config/modes"
require_relative "config/proxies"
require_relative "config/bind"
require_relative "config/dsl"
require_relative "config/loader"

module Abaca
  # Every setting of a server, checked and frozen.
  #
  # Defaults come from DEFAULTS and, for the limits, from the native table; Loader joins them with a
  # configuration file and the command line.
  class Config
    # The limits of the native table: name => [default, unit, what happens beyond it].
    LIMITS = Engine::LIMITS.transform_keys(&:to_sym).freeze

    # What a setting is when nobody says otherwise. `max_fibers` and `default_host` are worked out.
    DEFAULTS = {
      after_booted: [].freeze, after_stopped: [].freeze, app: nil, binds: [].freeze, cancel_on_disconnect: false,
      clean_thread_locals: false, debug: false, default_host: nil, directory: nil, early_hints: false,
      environment: "development", errors: nil, fiber_scheduler: "Abaca::Scheduler", formatter: nil,
      forwarded_fields: :x_forwarded, half_close: :ask, idle_timeout: 0.0, liveness: nil, log: nil,
      log_requests: false, logger: nil,
      max_body_memory_total: Admission::MAX_BODY_MEMORY_TOTAL, max_fibers: nil, max_queue: Admission::MAX_QUEUE,
      mode: :fiber, null_input: true, pidfile: nil, rack_url_scheme: "http", rackup: "config.ru", readiness: nil,
      redirect: nil, remote_address: :socket, lowlevel_error_handler: nil, show_errors: nil,
      request_timeouts: [].freeze, rewindable_input: Rack.release.to_i < 3, routes: [].freeze, script_name: "",
      shutdown_delay: 0.0, shutdown_timeout: 30.0, silent: false, stream_bodies: [].freeze, supported_http_methods: nil,
      tag: nil,
      threads: [0, 5].freeze, trusted_proxies: [].freeze
    }.merge(Modes::DEFAULTS, Stalls::DEFAULTS, LIMITS.transform_values(&:first)).freeze

    # Names that Puma has for settings of ours.
    OTHER_NAMES = { force_shutdown_after: :shutdown_timeout, first_data_timeout: :header_timeout,
                    fiber_per_request: :clean_thread_locals }.freeze

    # What to do for a client that has ended its own side of the connection.
    HALF_CLOSE = %i[ask answer gone].freeze
    # A path as it stands in a request, which may be compared octet by octet.
    HEALTH_PATH = %r{\A/[!$-;=@-\[\]-~]{0,254}\z}
    private_constant :HALF_CLOSE, :HEALTH_PATH

    DEVELOPMENT = %w[development test].freeze
    private_constant :DEVELOPMENT

    # Each fiber's stack takes two memory maps, and the kernel allows a process only so many.
    # Two fifths of them leave room for everything else.
    MAP_COUNT = "/proc/sys/vm/max_map_count"
    private_constant :MAP_COUNT

    class << self
      # @return [Integer] the most fibers that this machine's kernel bears
      def max_fibers_ceiling
        Integer(File.read(MAP_COUNT)) * 2 / 5
      rescue SystemCallError, ArgumentError
        65_530 * 2 / 5
      end

      # @param name [Symbol] of a limit
      # @param value [Object] what was given for it
      # @return [Integer]
      # @raise [ConfigError] when the value does not fit the limit
      def check_limit(name, value)
        _default, unit, text = LIMITS.fetch(name)
        number = whole(value)
        raise ConfigError, "#{name}: a whole number of #{unit} is needed, not #{value.inspect}" unless number

        least = text.include?("0 is ") ? 0 : 1
        return number if number.between?(least, (2**63) - 1)

        raise ConfigError, "#{name}: #{number} #{unit} is out of range, #{least} is the least"
      end

      # @param value [Object] what was given where a whole number is needed
      # @return [Integer, nil] nil for anything else; half a second is not none
      def whole(value)
        number = Integer(value, exception: false)
        number unless value.is_a?(Numeric) && number != value
      end

      # @param names [Array<Symbol>] what a setting may be
      # @param value [Object] what was given for it: one of them, or its name as a String
      # @return [Symbol, nil] nil for anything else, octets included of which no Symbol can be made
      def one_of(names, value) = names.find { |name| name.to_s == value.to_s }

      # @param pattern [Regexp] of ASCII
      # @param value [Object]
      # @return [Boolean] whether it is a String like that, and not one that no Regexp may be asked about
      def ascii?(pattern, value) = value.is_a?(String) && value.ascii_only? && pattern.match?(value)

      # @param value [Object]
      # @return [Boolean] whether it is a pattern of paths, "/reports/*" say; these are compared octet by octet
      def path_pattern?(value)
        value.is_a?(String) && value.encoding.ascii_compatible? && value.start_with?("/", "*")
      end

      # @param values [Hash{Symbol => Object}] limits by name
      # @return [Hash{Symbol => Integer}]
      # @raise [ConfigError] for an unknown name or a value that does not fit
      def check_limits(values)
        values.to_h do |name, value|
          raise ConfigError, "no limit is named `#{name}'#{suggestion(name, LIMITS.keys)}" unless LIMITS.key?(name)

          [name, check_limit(name, value)]
        end
      end

      # @return [String] ` (did you mean ...?)` or nothing
      def suggestion(name, known)
        found = DidYouMean::SpellChecker.new(dictionary: known).correct(name).first
        found ? " (did you mean `#{found}'?)" : ""
      end
    end

    # @return [Array<String>] what whoever starts the server should hear of
    attr_reader :warnings

    # @param values [Hash{Symbol => Object}] settings by name; the rest have their defaults
    # @param warnings [Array<String>] what came up while the settings were gathered
    # @raise [ConfigError] for an unknown name or a value out of range
    def initialize(values = {}, warnings: [])
      values = values.transform_keys { |name| OTHER_NAMES.fetch(name, name) }
      unknown = values.keys.find { |name| !DEFAULTS.key?(name) }
      raise ConfigError, "unknown setting `#{unknown}'#{self.class.suggestion(unknown, DEFAULTS.keys)}" if unknown

      @warnings = warnings.dup
      @values = DEFAULTS.merge(values)
      LIMITS.each_key { |name| @values[name] = self.class.check_limit(name, @values[name]) }
      check_admission
      @values.merge!(Stalls.check(@values))
      check_modes
      check_shutdown
      check_health
      check_proxies
      check_null_input
      @values[:supported_http_methods] = HttpMethods.check(@values[:supported_http_methods])
      check_half_close
      @values.freeze
      @warnings.freeze
      freeze
    end

    # @param name [Symbol]
    # @return [Object] the setting's value
    # @raise [KeyError] when there is no such setting
    def [](name) = @values.fetch(OTHER_NAMES.fetch(name, name))

    # @return [Hash{Symbol => Object}]
    def to_h = @values.dup

    # @return [Hash{Symbol => Integer}] the limits alone
    def limits = @values.slice(*LIMITS.keys)

    # Where the server listens: what was asked for, else port 9292; in development and test on the
    # loopback address only.
    #
    # @return [Array<Bind>]
    def binds
      binds = @values[:binds].empty? ? [Bind.tcp(nil, 9292)] : @values[:binds]
      binds.map { |bind| bind.hostless? ? bind.with_host(default_host) : bind }
    end

    # @return [Boolean] whether `threads` was set, as in most of Puma's files, and no request runs on any
    def idle_threads? = given?(:threads) && !Modes.threads?(self)

    # @return [Boolean] whether the environment is one where the developer is the client
    def developing? = DEVELOPMENT.include?(@values[:environment])

    # @return [String] the address for ports that were given without one
    def default_host
      @values[:default_host] || (developing? ? "127.0.0.1" : "0.0.0.0")
    end

    private

    def check_admission
      @values[:max_fibers] = Admission.max_fibers(@values[:max_fibers], self.class.max_fibers_ceiling, @warnings)
      %i[max_queue max_body_memory_total].each { |name| @values[name] = Admission.public_send(name, @values[name]) }
      %i[request_timeouts stream_bodies].each { |name| @values[name] = Admission.public_send(name, @values[name]) }
    end

    def check_modes
      %i[mode threads routes hybrid_threshold hybrid_requests].each do |name|
        @values[name] = Modes.public_send(name, @values[name])
      end
      warn_of_modes
      return unless Modes.threads_lead?(self) && given?(:fiber_scheduler)

      raise ConfigError, "fiber_scheduler: requests run on threads, not on fibers (mode :thread)"
    end

    def warn_of_modes
      return if Modes.hybrid?(self)

      Modes::DEFAULTS.each_key do |name|
        @warnings << "`#{name}' has no effect without mode :hybrid or a hybrid route (docs/modes.md)" if given?(name)
      end
    end

    def given?(name) = @values[name] != DEFAULTS[name]

    def check_half_close
      given = @values[:half_close]
      @values[:half_close] = self.class.one_of(HALF_CLOSE, given) ||
                             raise(ConfigError, "half_close: :ask, :answer or :gone is needed, not #{given.inspect}")
    end

    def check_proxies
      @values[:trusted_proxies] = Proxies.networks(@values[:trusted_proxies], "trusted_proxies")
      @values[:forwarded_fields] = Proxies.fields(@values[:forwarded_fields])
      @values[:remote_address] = Proxies.remote_address(@values[:remote_address])
    end

    def check_null_input
      return if @values[:null_input] || Gem::Version.new(Rack.release) >= Gem::Version.new("3.1")

      raise ConfigError, "null_input: Rack #{Rack.release} wants a rack.input in every request, 3.1 does not"
    end

    def check_shutdown
      @values[:shutdown_delay] = check_seconds(:shutdown_delay, "seconds are")
      @values[:idle_timeout] = @values[:idle_timeout].nil? ? 0.0 : check_seconds(:idle_timeout, "seconds are")
      return if @values[:shutdown_timeout].nil?

      @values[:shutdown_timeout] = check_seconds(:shutdown_timeout, "seconds, :forever or :immediately is")
    end

    def check_seconds(name, needed)
      seconds = Float(@values[name], exception: false)
      return seconds if seconds&.finite? && !seconds.negative?

      raise ConfigError, "#{name}: #{needed} needed, not #{@values[name].inspect}"
    end

    def check_health
      %i[readiness liveness].each do |name|
        path = @values[name]
        next if path.nil?

        unless self.class.ascii?(HEALTH_PATH, path)
          raise ConfigError, "#{name}: a path such as \"/#{name}\" is needed, not #{path.inspect}"
        end
        raise ConfigError, "readiness and liveness have the same path" if @values[:readiness] == @values[:liveness]
      end
    end
  end
end
