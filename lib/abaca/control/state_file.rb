# frozen_string_literal: true

require_relative "../atomic_file"
require_relative "../errors"

module Abaca
  class Control
    # The file that tells `abacactl` and other tools which process serves and where its control server is. Its format is
    # Puma's: a line for each, which is YAML too.
    class StateFile
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

      # @param path [String, nil] nil: no file, and the methods do nothing
      # @param permission [Integer, nil] its mode; nil: what the umask leaves, or 0600 for a file with a token
      # @param written [Boolean] whether an earlier program of this process may have written it
      def initialize(path, permission: nil, written: false)
        @path = path && File.expand_path(path)
        @permission = permission
        @pid = Process.pid if written && path
      end

      # Writes the file in one piece: nobody reads half of it.
      #
      # @param control_url [String, nil]
      # @param token [String, nil]
      # @raise [ConfigError] if it cannot be written
      def write(control_url: nil, token: nil)
        return unless @path

        mode = @permission || (token ? MODE_WITH_TOKEN : 0o666 & ~File.umask)
        AtomicFile.write(@path, text(control_url, token), mode:)
        @pid = Process.pid
      rescue SystemCallError => e
        raise ConfigError, "cannot write the state file: #{e.message}"
      end

      # Removes the file if it is still this process's own: a call in a forked child, or after another server took over
      # the file, has no effect.
      def remove
        AtomicFile.remove(@path) { self.class.read(@path)[:pid] == @pid } if @pid == Process.pid
      end

      private

      def text(control_url, token)
        lines = { pid: Process.pid, control_url:, control_auth_token: token }.compact.map do |key, value|
          value.to_s.include?(" ") ? "#{key}: \"#{value}\"" : "#{key}: #{value}"
        end
        ["---", *lines, "running_from: \"#{Dir.pwd}\"", ""].join("\n")
      end
    end
  end
end
