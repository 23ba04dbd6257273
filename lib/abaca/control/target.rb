# frozen_string_literal: true

require_relative "state_file"

module Abaca
  class Control
    # Which server `abacactl` talks to: what its flags say, then the configuration file, then the state file or the
    # pidfile that one of them names.
    class Target
      NAMES = %i[state pidfile pid control_url control_token].freeze
      private_constant :NAMES

      # @return [String, nil]
      attr_reader :state, :pidfile, :control_url, :control_token
      # @return [Integer, nil]
      attr_reader :pid

      # @param flags [Hash{Symbol => Object}] `state`, `pidfile`, `control_url` and `control_token` (Strings), `pid` (an
      #   Integer), `file` (a configuration file; "-" is none) and `environment`
      # @raise [ConfigError] if the configuration file does not load
      def initialize(flags)
        read_config(flags) if config?(flags)
        NAMES.each { |name| instance_variable_set(:"@#{name}", flags[name]) if flags[name] }
      end

      # Reads the state file or the pidfile.
      #
      # @raise [ConfigError] if there is none
      def find
        return read_state if @state

        @pid ||= Integer(File.read(@pidfile).strip, 10) if @pidfile
      rescue SystemCallError, ArgumentError
        # A control server needs no process id.
        raise ConfigError, "No process id in #{@pidfile}" unless @control_url
      end

      private

      # A server that is named needs no other source; only its token may be in the file.
      def config?(flags)
        return flags[:file] != "-" if flags[:file]

        !(flags.values_at(:state, :pid, :pidfile).any? || (flags[:control_url] && flags[:control_token]))
      end

      def read_config(flags)
        require_relative "../../abaca"
        settings = { environment: flags[:environment] }.compact
        config = Config::Loader.new(settings, files: flags[:file] && [flags[:file]]).load
        @state, @pidfile = config.to_h.values_at(:state_path, :pidfile).map do |path|
          path && File.expand_path(path, config[:directory] || Dir.pwd)
        end
        @control_url = config[:control_url]
        @control_token = config[:control_auth_token]
      end

      def read_state
        found = StateFile.read(@state)
        @pid = found[:pid]
        @control_url = found[:control_url]
        @control_token = found[:control_auth_token]
      rescue Errno::ENOENT
        raise ConfigError, "State file not found: #{@state}"
      rescue SystemCallError => e
        raise ConfigError, "Cannot read the state file: #{e.message}"
      end
    end
  end
end
