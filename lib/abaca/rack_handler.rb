# frozen_string_literal: true

require_relative "../abaca"

module Abaca
  # What `rackup -s abaca` and `rails server` call; both lines of Rack register a handler that includes it. Its
  # options are those of Puma's handler, and settings of ours by name (`rackup -O max_fibers=100`).
  module RackHandler
    extend self

    PumaNames.define # whoever loads a handler is about to serve, and may load the app before #run

    # Settings that other options decide, or that do not concern a handler's caller.
    OWN = %i[app binds debug environment errors log rackup silent].freeze
    PORT = 9292
    private_constant :OWN, :PORT

    # Reads the configuration file as the command does; Host and Port override its binds.
    #
    # @param app [#call]
    # @param options [Hash{Symbol => Object}] as for #config
    # @yieldparam launcher [Launcher] before it serves
    # @return [nil]
    def run(app, **options)
      @told = false
      @launcher = Launcher.new(config(options), app:)
      @launcher.stop if @told
      yield @launcher if block_given?
      @launcher.run
    rescue ConfigError => e
      abort "abaca: #{e.message}"
    ensure
      @launcher = nil
    end

    # @param options [Hash{Symbol => Object}] `Host`, `Port`, `Threads`, `Verbose`, `Silent`, `environment`,
    #   `restart_cmd`, `config_files` (Array of paths), and settings by name. With `user_supplied_options`, an Array of
    #   keys, all others are what is to be when the configuration file says nothing
    # @return [Config]
    # @raise [ConfigError]
    def config(options)
      given = options.except(:user_supplied_options)
      named = options[:user_supplied_options]
      # As in Puma: an empty list leaves everything to the file.
      given, defaults = named ? given.partition { |name, _| named.include?(name) }.map(&:to_h) : [given, {}]
      Config::Loader.new(settings(given, defaults), files: given[:config_files],
                                                    defaults: default_settings(defaults)).load
    end

    # What requests run on, according to the configuration file: `rails server` loads the handler, then the app, and
    # only then calls `run`.
    #
    # @return [Symbol, nil] :fiber if any may run on one, or :thread; nil if the file has a mistake, which `run`
    #   reports
    def mode
      Config::Modes.threads_lead?(Config::Loader.new.load) ? :thread : :fiber
    rescue ConfigError
      nil
    end

    # rackup's handler of INT calls it, perhaps before there is a launcher.
    def shutdown
      @launcher ? @launcher.stop : @told = true
    end

    # @return [Hash{String => String}] for `rackup --help`
    def valid_options
      { "Host=HOST" => "Address or name to listen on (default: localhost)",
        "Port=PORT" => "Port to listen on (default: 8080)",
        "Threads=MIN:MAX" => "Threads of mode thread and hybrid",
        "Verbose" => "Write an access log", "Silent" => "No banner" }
    end

    private

    # What overrides the file.
    def settings(options, defaults)
      settings = common(options)
      return settings unless options[:Host] || options[:Port]

      settings[:binds] = [bind(options[:Host] || defaults[:Host], options[:Port] || defaults[:Port])]
      settings
    end

    # What applies where the file says nothing: its ports without a host get the default host.
    def default_settings(options)
      settings = common(options)
      host, port = options.values_at(:Host, :Port)
      settings[:default_host] = host if host && !host.match?(%r{\A[./@]|://})
      settings[:binds] = [bind(host, port)] if host || port
      settings
    end

    def common(options)
      settings = options.slice(*Config::DEFAULTS.keys, *Config::OTHER_NAMES.keys).except(*OWN).compact
      settings[:environment] = options[:environment].to_s if options[:environment]
      settings[:log_requests] = true if options[:Verbose]
      settings[:silent] = true if options[:Silent]
      settings[:threads] = options[:Threads].to_s if options[:Threads]
      settings[:restart_command] = options[:restart_cmd] if options[:restart_cmd]
      settings
    end

    # A host that begins with `.`, `/` or `@` is a unix socket.
    def bind(host, port)
      return Config::Bind.unix(host) if host&.start_with?(".", "/", "@")
      return Config::Bind.parse(with_port(host, port)) if host&.include?("://")

      Config::Bind.tcp(host, port || PORT)
    end

    # The port may come by itself: `rails server -b ssl://localhost -p 3000`.
    def with_port(url, port)
      url.sub(%r{\A((?:tcp|ssl)://(?:\[[^\]]*\]|[^\[\]:/?#]*))(?=[/?#]|\z)}) { |place| "#{place}:#{port || PORT}" }
    end
  end
end
