# frozen_string_literal: true

module Abaca
  class Launcher
    # What a process does at signals.
    module Actions
      private

      # What each signal does; docs/signals.md has the same table in words.
      def actions
        { "INT" => method(:stop), "TERM" => method(:stop), "HUP" => -> { refresh || stop },
          Signals::DUMP => method(:dump), "USR1" => method(:renew), "URG" => method(:refork),
          **(skip_usr2? ? {} : { "USR2" => method(:restart) }),
          **(clustered? ? actions_of_master : {}) }
      end

      # For programs that use the signal themselves.
      def skip_usr2? = %w[ABACA_SKIP_SIGUSR2 PUMA_SKIP_SIGUSR2].any? { |name| ENV.key?(name) }

      def actions_of_master
        { "TTIN" => method(:add_worker), "TTOU" => method(:remove_worker), "CHLD" => @runner.method(:child_ended) }
      end
    end
  end
end
