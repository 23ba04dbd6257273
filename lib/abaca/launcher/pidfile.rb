# frozen_string_literal: true

require_relative "../process_file"

module Abaca
  class Launcher
    # The file with the process id alone.
    class Pidfile < ProcessFile
      # @raise [ConfigError] when it cannot be written
      def write
        put("#{Process.pid}\n", 0o666 & ~File.umask, "pidfile") if @path
        remove_earlier
      end

      private

      def pid_in(path) = File.read(path).to_i
    end
  end
end
