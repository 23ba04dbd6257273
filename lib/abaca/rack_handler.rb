# frozen_string_literal: true

require_relative "../abaca"

module Abaca
  # What `rackup -s abaca` and `rails server -u abaca` call; both lines of Rack register it.
  module RackHandler
    # Reads the configuration file as the command does; Host and Port win over its binds.
    #
    # @param app [#call]
    # @param options [Hash{Symbol => Object}] `Host`, `Port`, `Verbose`, `Silent`, `environment`
    # @yieldparam launcher [Launcher] before it serves
    # @return [nil]
    def self.run(app, **options)
      @told = false
      config = Config::Loader.new(settings(options)).load
      @launcher = Launcher.new(config, app:)
      @launcher.stop if @told
      yield @launcher if block_given?
      @launcher.run
    rescue ConfigError => e
      abort "abaca: #{e.message}"
    ensure
      @launcher = nil
    end

    # What the configuration file lets requests run on: `rails server` loads the handler, then the app, and only
    # then calls `run`.
    #
    # @return [Symbol, nil] :fiber, when any may run on one, or :thread; nil when the file has a mistake, which
    #   `run` tells
    def self.mode
      Config::Modes.threads_lead?(Config::Loader.new.load) ? :thread : :fiber
    rescue ConfigError
      nil
    end

    # rackup's handler of INT calls it, perhaps before there is a launcher.
    def self.shutdown
      @launcher ? @launcher.stop : @told = true
    end

    # @return [Hash{String => String}] for `rackup --help`
    def self.valid_options
      { "Host=HOST" => "Address or name to listen on (default: localhost)",
        "Port=PORT" => "Port to listen on (default: 8080)",
        "Verbose" => "Write an access log", "Silent" => "No banner" }
    end

    def self.settings(options)
      settings = {}
      settings[:environment] = options[:environment].to_s if options[:environment]
      settings[:log_requests] = true if options[:Verbose]
      settings[:silent] = true if options[:Silent]
      settings[:binds] = [bind(options)] if options[:Host] || options[:Port]
      settings
    end

    # A host that begins with `.`, `/` or `@` is a unix socket.
    def self.bind(options)
      host = options[:Host]
      return Config::Bind.unix(host) if host&.start_with?(".", "/", "@")

      Config::Bind.tcp(host, options[:Port] || 9292)
    end
    private_class_method :settings, :bind
  end
end
