# frozen_string_literal: true

module Abaca
  class Launcher
    # Ends the process when its server does not end: a request that computes and never waits cannot be broken
    # off, and keeps the loop from doing what is due. Its methods may be called by trap handlers.
    class Overdue
      STATUS = 1

      # @yield before the end, to say why
      def initialize(&report)
        @report = report
        @thread = nil
      end

      # Gives the server so many seconds from now on, in place of those that it had.
      #
      # @param seconds [Numeric, nil] nil: as long as it wants
      def give(seconds)
        cancel
        @thread = seconds && Thread.new do
          sleep(seconds)
          finish
        end
      end

      # The process ends now.
      def now
        cancel
        @thread = Thread.new { finish }
      end

      # The server has ended.
      def cancel
        @thread&.kill
        @thread = nil
      end

      private

      # Neither `at_exit` blocks nor `ensure` run: they would wait for the thread that hangs.
      def finish
        @report.call
      ensure
        Process.exit!(STATUS)
      end
    end
  end
end
