# frozen_string_literal: true

module Abaca
  class Launcher
    # Restarts the server when a file is touched: `plugin :tmp_restart`.
    class RestartFile
      # Seconds between two looks.
      PAUSE = 2
      private_constant :PAUSE

      # @param path [String, nil] nil: there is none, and the methods do nothing
      # @yield when it is newer than it was
      def initialize(path, &restart)
        @path = path && File.expand_path(path)
        @restart = restart
      end

      # Looks from now on.
      def watch
        return unless @path

        @known = time
        @thread = Thread.new { look while sleep(PAUSE) }
        @thread.name = "abaca restart file"
      end

      def close = @thread&.kill

      private

      # A file that has gone asks for nothing.
      def look
        found = time or return
        newer = @known.nil? || found > @known
        @known = found
        @restart.call if newer
      end

      def time
        File.mtime(@path)
      rescue SystemCallError
        nil
      end
    end
  end
end
