# frozen_string_literal: true

module Abaca
  # Loads a rackup file, with either line of Rack.
  module AppLoader
    RUBY_LIBRARY = File.join(RbConfig::CONFIG.fetch("rubylibdir"), "")
    private_constant :RUBY_LIBRARY

    # @param path [String] a `.ru` file, or a `.rb` file that defines the constant of its name
    # @param log [Log]
    # @return [#call]
    # @raise [ConfigError] in one line; its cause is what the file raised
    def self.load(path, log)
      find(path)
      require "rack"
      require "rack/builder"
      result = Rack::Builder.parse_file(File.expand_path(path))
      return result unless result.is_a?(Array)

      app, options = result
      warn_of(options, path, log)
      app
    rescue ConfigError, SystemExit, SignalException
      raise
    rescue SyntaxError => e
      raise ConfigError, "cannot load #{path}: #{e.message.lines.first.chomp}"
    rescue Exception => e # rubocop:disable Lint/RescueException -- an app's may descend from it
      raise ConfigError, "cannot load #{path}: #{first_line(e.message)} (#{e.class})#{place(e)}"
    end

    # @param path [String]
    # @param folder [String] where it is
    # @raise [ConfigError] if there is no such file
    def self.find(path, folder = Dir.pwd)
      raise ConfigError, "no rackup file #{path} in #{folder}" unless File.file?(File.expand_path(path, folder))
    end

    # Rack 2 returns those of a line of the file that begins with `#\`; Rack 3 refuses such a line, and returns the app
    # alone.
    def self.warn_of(options, path, log)
      return if options.nil? || options.empty?

      log.warn("#{path}: the options of its line `#\\' have no effect (#{options.keys.join(', ')}): use flags, or " \
               "the configuration file")
    end

    def self.first_line(text) = text.lines.first.to_s.chomp

    # Where it was raised: the caller of the code in Ruby's own library that raised it, since RubyGems and others wrap
    # `require` there.
    def self.place(exception)
      frames = exception.backtrace_locations.to_a
      location = frames.find { |frame| !frame.path.start_with?("<internal:", RUBY_LIBRARY) } || frames.first
      location && " at #{location.path}:#{location.lineno}"
    end
    private_class_method :warn_of, :first_line, :place
  end
end
