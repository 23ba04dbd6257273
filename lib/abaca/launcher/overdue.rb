# frozen_string_literal: true

require "io/wait"

module Abaca
  class Launcher
    # Ends the process when its server does not end: a request that computes and never waits cannot be broken off, and
    # keeps the loop from doing what is due. Its thread is made before the first signal comes, as there may be none to
    # be had later. Trap handlers may call its methods.
    class Overdue
      STATUS = 1
      # Seconds that the thread waits at most: no system's clock holds any number.
      LONGEST = 100_000
      # Bytes that are read at once.
      ROOM = 4096
      private_constant :LONGEST, :ROOM

      # @yield before the end, to say why
      def initialize(&report)
        @report = report
        @reader, @writer = IO.pipe
        @over = false
      end

      # Makes the thread: what #give says applies from now on.
      #
      # @raise [ThreadError]
      def start
        Thread.new { wait }.name = "abaca overdue"
      end

      # Gives the server this many seconds from now on, instead of those that it had.
      #
      # @param seconds [Numeric, nil] nil: as long as it wants
      def give(seconds)
        @limit = seconds && (time + seconds)
        @writer.write_nonblock(".", exception: false) # when it is full, the thread wakes up anyway
        nil
      rescue IOError, SystemCallError
        nil # it is over
      end

      # The process ends now.
      def now = give(0)

      # The server has ended; a later call of #give has no effect.
      def cancel
        @over = true
        @writer.close
      end

      # In a forked child, which has no such thread.
      def forget = [@reader, @writer].each(&:close)

      private

      def time = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def wait
        until @over
          left = @limit ? @limit - time : LONGEST
          return finish unless left.positive?

          @reader.wait_readable([left, LONGEST].min)
          @reader.read_nonblock(ROOM, exception: false)
        end
      ensure
        @reader.close
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
