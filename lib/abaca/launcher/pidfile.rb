# frozen_string_literal: true

module Abaca
  class Launcher
    # The file that tells others which process serves.
    class Pidfile
      # @param path [String, nil] nil: no file, and the methods do nothing
      def initialize(path)
        @path = path && File.expand_path(path)
      end

      # @raise [ConfigError] when it cannot be written
      def write
        return unless @path

        File.write(@path, "#{Process.pid}\n")
        @pid = Process.pid
      rescue SystemCallError => e
        raise ConfigError, "cannot write the pidfile: #{e.message}"
      end

      # Removes the file if it is still this process's own: a call in a forked child, or after another server took
      # over the file, has no effect.
      def remove
        return unless @pid == Process.pid

        File.delete(@path) if File.read(@path).to_i == @pid
      rescue SystemCallError
        nil
      end
    end
  end
end
