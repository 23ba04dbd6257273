# frozen_string_literal: true

require "socket"
require_relative "replies"

module Abaca
  class Control
    # The process that answers for the launcher: it holds the control server's sockets and reads the page, and so
    # answers while the launcher is stopped, loops stall or an extension keeps Ruby's lock. What needs the launcher, it
    # asks for over a pair of sockets. This is the launcher's side: it starts the process, before the app is loaded, and
    # anew when it has ended; the process ends with the launcher, however that ends. It is nobody's child: an app that
    # waits for all of its children does not wait for this one.
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
      # @param before [#call] is called before each fork
      # @yieldparam socket [UNIXSocket] in the child, which ends with the block
      def initialize(log, answer:, before: -> {}, &run)
        @log = log
        @answer = answer
        @before = before
        @run = run
        start
        @thread = Thread.new { look_after }
        @thread.name = "abaca watch"
      end

      # Ends the process when it has answered what it was asked. Idempotent.
      #
      # @param silent [Numeric] seconds for its clients that have not asked yet
      def close(silent: 0)
        return if @closing

        @closing = silent
        @replies.dismiss(silent:)
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
        @before.call
        ours, theirs = UNIXSocket.pair
        @log.flush # or the child may have a part of a line
        @pid = orphan { child(ours, theirs) }
        @socket = ours
        @replies = Replies.new(ours, @log, &@answer)
      ensure
        theirs&.close
      end

      # A process whose parent has ended; its number.
      def orphan(&)
        reader, writer = IO.pipe
        parent = Process.fork { tell_child(writer, &) }
        writer.close
        pid = reader.read
        await(parent)
        raise Errno::EAGAIN, "a process of its own" if pid.empty?

        Integer(pid, 10)
      ensure
        reader&.close
        writer&.close
      end

      def tell_child(writer)
        pid = Process.fork do
          writer.close
          yield
        end
        writer.write(pid.to_s)
      ensure
        exit!
      end

      def await(pid)
        Process.wait(pid)
      rescue Errno::ECHILD
        nil # other code has waited for any child
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
          @replies.dismiss(silent: @closing) if @closing # meanwhile
        end
      end

      # Its end of the pair is closed: it has ended, or is about to.
      def end_process
        @socket.close
        @log.warn("the watch has ended, and is started anew") unless @closing
        Process.detach(@pid) # the first process of a container gets all orphans
      rescue ThreadError
        nil # none to be had: nobody waits for its end
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
