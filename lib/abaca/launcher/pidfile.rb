# frozen_string_literal: true

require_relative "../atomic_file"

module Abaca
  class Launcher
    # The file that tells others which process serves.
    class Pidfile
      # @param path [String, nil] nil: no file, and the methods do nothing
      # @param written [Boolean] whether an earlier program of this process may have written it
      def initialize(path, written: false)
        @path = path && File.expand_path(path)
        @pid = Process.pid if written
      end

      # @raise [ConfigError] when it cannot be written
      def write
        return unless @path

        AtomicFile.write(@path, "#{Process.pid}\n", mode: 0o666 & ~File.umask)
        @pid = Process.pid
      rescue SystemCallError => e
        raise ConfigError, "cannot write the pidfile: #{e.message}"
      end

      # Removes the file if it is still this process's own: a call in a forked child, or after another server took
      # over the file, has no effect.
      def remove
        AtomicFile.remove(@path) { File.read(@path).to_i == @pid } if @path && @pid == Process.pid
      end
    end
  end
end
