# frozen_string_literal: true

module Abaca
  # Settings under the names of Puma's options, with what plugins keep beside them: reads like a Hash. What is written
  # is kept for plugins; the settings themselves do not change.
  class PumaOptions
    # Puma's options that are settings of ours by another name.
    NAMES = { state: :state_path, restart_cmd: :restart_command, log_formatter: :formatter, custom_logger: :logger,
              first_data_timeout: :header_timeout }.freeze
    # Those that are worked out of others.
    WORKED_OUT = {
      binds: ->(get) { get.call(:binds).map(&:to_s) },
      min_threads: ->(get) { get.call(:threads).first },
      max_threads: ->(get) { get.call(:threads).last },
      max_keep_alive: ->(get) { get.call(:max_requests_per_connection).then { |n| n.zero? ? Float::INFINITY : n } },
      http_content_length_limit: ->(get) { get.call(:max_body_size).then { |n| n unless n.zero? } },
      idle_timeout: ->(get) { get.call(:idle_timeout).then { |n| n unless n.zero? } },
      force_shutdown_after: ->(get) { get.call(:shutdown_timeout) || -1 },
      redirect_stdout: ->(get) { get.call(:redirect)&.fetch(:stdout) },
      redirect_stderr: ->(get) { get.call(:redirect)&.fetch(:stderr) },
      redirect_append: ->(get) { get.call(:redirect)&.fetch(:append) }
    }.freeze
    # What a configuration file sets those with that have no method of the same name.
    SET_WITH = { min_threads: :threads, max_threads: :threads, redirect_stdout: :stdout_redirect,
                 redirect_stderr: :stdout_redirect, redirect_append: :stdout_redirect }.freeze
    private_constant :NAMES, :WORKED_OUT, :SET_WITH

    # @param config [Config]
    # @param own [Hash{Symbol => Object}] known better elsewhere
    # @return [PumaOptions]
    def self.of(config, own: {})
      new(config.plugins.kept, own:) { |name| name == :binds ? config.binds : config[name] }
    end

    # @return [Hash{Symbol => Object}] what plugins and gems have set
    attr_reader :kept
    alias user_options kept

    # @param kept [Hash{Symbol => Object}] of plugins
    # @param own [Hash{Symbol => Object}] known better elsewhere
    # @param set [#call, nil] takes a setting's name and its value; nil: only what plugins keep can be written
    # @yieldparam name [Symbol] of a setting
    # @yieldreturn [Object] its value
    def initialize(kept, own: {}, set: nil, &get)
      @kept = kept
      @own = own
      @set = set
      @get = get
    end

    # @param key [Symbol, String]
    # @return [Object, nil] nil also for an option that nobody knows; for a hook, an Array to which gems add blocks,
    #   which run after those of the file
    def [](key)
      key = key.to_sym
      return @own[key] if @own.key?(key)
      return @kept[key] if @kept.key?(key)
      return WORKED_OUT[key].call(@get) if WORKED_OUT.key?(key)

      name = setting(key) or return
      hook?(name) ? @kept[name] ||= [] : @get.call(name)
    end

    # Sets an option: a setting, or something of a plugin's own.
    # @raise [ConfigError] in a configuration file, for what is worked out of settings
    def []=(key, value)
      key = key.to_sym
      name = setting(key)
      if name && hook?(name) then @kept[name] = value
      elsif name && @set then @set.call(name, value)
      elsif @set && WORKED_OUT.key?(key)
        raise ConfigError, "options[:#{key}] cannot be set: use `#{SET_WITH.fetch(key, key)}'"
      else
        @kept[key] = value
      end
    end

    # @return [Boolean] whether it is known
    def key?(key)
      key = key.to_sym
      @own.key?(key) || @kept.key?(key) || WORKED_OUT.key?(key) || !setting(key).nil?
    end
    alias has_key? key?
    alias include? key?

    # As Hash#fetch.
    def fetch(key, *default)
      return self[key] if key?(key)
      return yield key if block_given?

      default.empty? ? raise(KeyError, "key not found: #{key.inspect}") : default.first
    end

    # As Hash#dig.
    def dig(key, *others) = others.empty? ? self[key] : self[key]&.dig(*others)

    # @return [Hash{Symbol => Object}] all that are known
    def to_h = keys.to_h { |key| [key, self[key]] }

    # @return [Array<Symbol>] their names
    def keys = Config::DEFAULTS.keys | NAMES.keys | WORKED_OUT.keys | @kept.keys | @own.keys

    private

    def hook?(name) = Config::SETTINGS[name].hook?

    def setting(key)
      name = NAMES.fetch(key) { Config::OTHER_NAMES.fetch(key, key) }
      name if Config::DEFAULTS.key?(name)
    end
  end
end
