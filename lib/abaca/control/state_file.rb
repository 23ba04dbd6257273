# frozen_string_literal: true

require_relative "../process_file"

module Abaca
  class Control
    # The file that tells `abacactl` and other tools which process serves and where its control server is. Its format is
    # Puma's: a line for each, which is YAML too.
    class StateFile < ProcessFile
      # Nobody but its owner reads a token.
      MODE_WITH_TOKEN = 0o600
      LINE = /\A(?<key>pid|control_url|control_auth_token|running_from): *(?<value>.+)/
      private_constant :MODE_WITH_TOKEN, :LINE

      # @param path [String]
      # @return [Hash{Symbol => Object}] those of `pid` (an Integer), `control_url`, `control_auth_token` and
      #   `running_from` that it has
      # @raise [SystemCallError]
      def self.read(path)
        File.readlines(path, chomp: true).filter_map { |line| LINE.match(line) }.to_h do |match|
          value = match[:value].strip.delete_prefix('"').delete_suffix('"')
          [match[:key].to_sym, match[:key] == "pid" ? value.to_i : value]
        end
      end

      # @param permission [Integer, nil] its mode; nil: what the umask leaves, or 0600 for a file with a token
      # @param options [Hash{Symbol => Object}] as for ProcessFile
      def initialize(path, permission: nil, **options)
        super(path, **options)
        @permission = permission
      end

      # Writes the file in one piece: nobody reads half of it.
      #
      # @param control_url [String, nil]
      # @param token [String, nil]
      # @raise [ConfigError] if it cannot be written
      def write(control_url: nil, token: nil)
        mode = @permission || (token ? MODE_WITH_TOKEN : 0o666 & ~File.umask)
        put(text(control_url, token), mode, "state file") if @path
        remove_earlier
      end

      private

      def pid_in(path) = self.class.read(path)[:pid]

      def text(control_url, token)
        lines = { pid: Process.pid, control_url:, control_auth_token: token }.compact.map do |key, value|
          value.to_s.include?(" ") ? "#{key}: \"#{value}\"" : "#{key}: #{value}"
        end
        ["---", *lines, "running_from: \"#{Dir.pwd}\"", ""].join("\n")
      end
    end
  end
end
