# frozen_string_literal: true

require "socket"
require_relative "replies"

module Abaca
  class Control
    # The process that answers for the launcher: it holds the control server's sockets and reads the page, and so
    # answers while the launcher is stopped, loops stall or an extension keeps Ruby's lock. What needs the launcher, it
    # asks for over a pair of sockets. This is the launcher's side: it forks the process, before the app is loaded, and
    # anew when it has ended; the process ends with the launcher, however that ends.
    class Watch
      # Seconds between the end of a process and the next one, if it has not lived for longer.
      PAUSE = 1.0
      # Seconds for its end: it answers what it was asked.
      PATIENCE = 7
      private_constant :PAUSE, :PATIENCE

      # @return [Integer, nil] its process
      attr_reader :pid

      # @param log [Log]
      # @param answer [#call] gets a word and what belongs to it, and returns an Answer
      # @yieldparam socket [UNIXSocket] in the child, which ends with the block
      def initialize(log, answer:, &run)
        @log = log
        @answer = answer
        @run = run
        start
        @thread = Thread.new { look_after }
        @thread.name = "abaca watch"
      end

      # Ends the process when it has answered what it was asked. Idempotent.
      def close
        return if @closing

        @closing = true
        @replies.dismiss
        return if @thread.join(PATIENCE)

        kill
        @thread.join
      end

      # In a forked child: lets go of the process.
      def forget = @socket.close

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def start
        @started = now
        ours, theirs = UNIXSocket.pair
        @log.flush # or the child may have a part of a line
        @pid = Process.fork { child(ours, theirs) }
        @socket = ours
        @replies = Replies.new(ours, @log, &@answer)
      ensure
        theirs&.close
      end

      # Nothing of the launcher's is to run at its end.
      def child(ours, theirs)
        ours.close
        @run.call(theirs)
      ensure
        exit!
      end

      def look_after
        loop do
          @replies.run
          end_process
          break if @closing

          start_anew
          @replies.dismiss if @closing # meanwhile
        end
      end

      # Its end of the pair is closed: it has ended, or is about to.
      def end_process
        @socket.close
        _, status = Process.wait2(@pid)
        @log.warn("the watch #{how(status)}, and is started anew") unless @closing
      rescue Errno::ECHILD
        nil # other code has waited for any child
      end

      def how(status)
        return "was killed by #{Signal.signame(status.termsig)}" if status.signaled?

        "has ended with status #{status.exitstatus}"
      end

      def start_anew
        sleep([PAUSE - (now - @started), 0].max)
        start unless @closing
      rescue SystemCallError => e
        @log.error("cannot fork the watch: #{e.message}")
        sleep(PAUSE)
        retry
      end

      def kill
        Process.kill(:KILL, @pid)
      rescue Errno::ESRCH
        nil # it has ended just now
      end
    end
  end
end
