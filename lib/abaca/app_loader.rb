# frozen_string_literal: true

require "rack"
require "rack/builder"

module Abaca
  # Loads a rackup file, with either line of Rack.
  module AppLoader
    RUBY_LIBRARY = File.join(RbConfig::CONFIG.fetch("rubylibdir"), "")
    private_constant :RUBY_LIBRARY

    # @param path [String] a `.ru` file, or a `.rb` file that defines the constant of its name
    # @return [#call]
    # @raise [ConfigError] in one line; its cause is what the file raised
    def self.load(path)
      raise ConfigError, "no rackup file #{path} in #{Dir.pwd}" unless File.file?(path)

      # Rack 2 returns the app and options of the file's first line, Rack 3 the app alone.
      result = Rack::Builder.parse_file(File.expand_path(path))
      result.is_a?(Array) ? result.first : result
    rescue ConfigError
      raise
    rescue SyntaxError => e
      raise ConfigError, "cannot load #{path}: #{e.message.lines.first.chomp}"
    rescue StandardError, ScriptError => e
      raise ConfigError, "cannot load #{path}: #{first_line(e.message)} (#{e.class})#{place(e)}"
    end

    def self.first_line(text) = text.lines.first.to_s.chomp

    # Where it was raised: the caller of the code in Ruby's own library that raised it, since RubyGems and others wrap
    # `require` there.
    def self.place(exception)
      frames = exception.backtrace_locations.to_a
      location = frames.find { |frame| !frame.path.start_with?("<internal:", RUBY_LIBRARY) } || frames.first
      location && " at #{location.path}:#{location.lineno}"
    end
    private_class_method :first_line, :place
  end
end
