# frozen_string_literal: true

module Abaca
  class Launcher
    # Ends the process when its server does not end: a request that computes and never waits cannot be broken off, and
    # keeps the loop from doing what is due. Trap handlers may call its methods.
    class Overdue
      STATUS = 1
      # Seconds, some thirty years. `sleep` raises for numbers that the kernel's clock cannot hold.
      LONGEST = 1_000_000_000
      private_constant :LONGEST

      # @yield before the end, to say why
      def initialize(&report)
        @report = report
        @threads = []
        @over = false
      end

      # Gives the server this many seconds from now on, instead of those that it had.
      #
      # @param seconds [Numeric, nil] nil: as long as it wants
      def give(seconds)
        turn = @turn = Object.new
        end_threads
        return unless seconds

        @threads << Thread.new do
          sleep([seconds, LONGEST].min)
          finish if @turn.equal?(turn) && !@over
        end
        end_threads if @over # since we looked
      end

      # The process ends now.
      def now = give(0)

      # The server has ended; a later call of #give has no effect.
      def cancel
        @over = true
        end_threads
      end

      private

      # A handler may come between the start of a thread and its entry in the list: that thread finds that its turn is
      # over.
      def end_threads
        nil while @threads.shift&.kill
      end

      # Neither `at_exit` blocks nor `ensure` run: they would wait for the thread that hangs.
      def finish
        @report.call
      ensure
        Process.exit!(STATUS)
      end
    end
  end
end
