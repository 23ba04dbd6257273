# frozen_string_literal: true

module Abaca
  class Launcher
    # The names of a process: its title, which `ps` shows, and `$0`, in which gems look for Puma.
    module Title
      # @param title [String]
      # @param name [String] for `$0`
      def self.set(title, name = "puma")
        $PROGRAM_NAME = name # Ruby makes it the title, too
        Process.setproctitle(title)
      end

      # @param config [Config]
      # @return [String] the end of the title
      def self.tag(config)
        tag = config[:tag] || File.basename(Dir.pwd)
        tag.empty? ? "" : " [#{tag}]"
      end
    end
  end
end
