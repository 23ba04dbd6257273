# frozen_string_literal: true

module Abaca
  class Launcher
    # The signal handlers of a process; docs/signals.md has the same table in words. Handlers only request things: what
    # serves wakes up and does the work.
    class Signals
      # INFO where the system has it, as on BSD and macOS.
      DUMP = Signal.list.key?("INFO") ? "INFO" : "PWR"
      # What ends a process that has no handler of its own.
      ENDING = %w[INT TERM QUIT].freeze
      private_constant :ENDING

      # @param actions [Hash{String => #call}] by signal
      def initialize(actions)
        @actions = actions
        @pid = Process.pid
        @previous = {}
      end

      # Installs the handlers.
      def trap
        @actions.each do |name, action|
          @previous[name] = Signal.trap(name) { Process.pid == @pid ? action.call : in_child(name) }
        end
      end

      # Restores the previous handlers.
      def restore
        @previous.each { |name, handler| Signal.trap(name, handler || "DEFAULT") }
        @previous.clear
      end

      private

      # A forked child has the handlers of its parent until it sets its own. It ends when it is told to, and ignores
      # what else came for its parent.
      def in_child(name)
        return unless ENDING.include?(name)

        Signal.trap(name, "DEFAULT")
        Process.kill(name, Process.pid)
      end
    end
  end
end
