# frozen_string_literal: true

module Abaca
  class Control
    # The flags that say which server is meant, as Target takes them: those of `abacactl` and `abaca top`.
    module TargetFlags
      private

      # @param env [#[]] the environment's variables
      # @return [Hash{Symbol => Object}] what they are without any flag
      def usual_flags(env) = { environment: %w[APP_ENV RACK_ENV RAILS_ENV].filter_map { |name| env[name] }.first }

      # @param words [OptionParser] has them set in `@flags`
      # @param pid [Boolean] whether the process may be named by a flag
      def targets(words, pid: false)
        flag(words, :state, "-S", "--state PATH", "State file of the server")
        flag(words, :control_url, "-C", "--control-url URL", "Its control server: unix:///path or tcp://host:port")
        flag(words, :control_token, "-T", "--control-token TOKEN", "What the control server asks for")
        flag(words, :pidfile, "-P", "--pidfile PATH", "File with its process id")
        flag(words, :pid, "-p", "--pid PID", Integer, "Its process id") if pid
        flag(words, :file, "-F", "--config-file PATH", "Its configuration file; - is none")
        flag(words, :environment, "-e", "--environment NAME", "Its environment (default: development)")
      end

      def flag(words, name, *definition) = words.on(*definition) { |value| @flags[name] = value }
    end
  end
end
