# frozen_string_literal: true

module Abaca
  class Launcher
    # How a process ends: gracefully, at once, or without its server. None of it needs a thread that is not there yet.
    module Endings
      # Stops gracefully; the second time, at once; the third time without waiting for anything. A call before the
      # server exists applies to it. A trap handler may call it.
      def stop
        @stops += 1
        return @overdue.now if @stops > 2
        return halt if @stops > 1

        end_runner
      end

      # Stops at once. A trap handler may call it.
      def halt
        @halted = true
        end_runner
      end

      private

      # Whether somebody has told it to.
      def ending? = @halted || @stops.positive?

      def end_runner
        return unless @runner

        @hot_restart&.cancel
        @plugins.pause
        @systemd.stopping
        @log.info(@halted ? "* Stopping immediately!" : @runner.parting)
        @overdue.give(@runner.patience(at_once: @halted))
        @runner.stop(at_once: @halted)
      end

      # The program is the next one of a restart, and the app loads. Nothing unwinds: RubyGems makes an error of an
      # exception in `require`.
      def end_boot
        @log.info("* Stopping immediately!")
        @systemd.stopping
        @succession.give_up
        remove_files
        exit!(0)
      end

      def report_overdue
        return become_the_next if @hot_restart&.pending?

        @log.error("the server does not end; the process ends without it")
        dump
        @runner&.kill
        remove_files
      end

      # For a process that ends at once.
      def remove_files
        @log.flush
        @control&.remove_files
        @pidfile.remove
      end
    end
  end
end
