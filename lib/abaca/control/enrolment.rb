# frozen_string_literal: true

require "socket"

module Abaca
  class Control
    # How a process that serves gets a line to the watch: it makes a pair of sockets, and sends one of them there. The
    # watch can so ask workers though the master is stopped, and also those that other workers have forked. What was
    # sent waits for the watch, and for the next one if that has ended. It is a stream, since not every system has pairs
    # that keep messages apart: none is joined with the next one, as each has a descriptor.
    class Enrolment
      # Bytes of a message.
      MESSAGE = 64
      private_constant :MESSAGE

      # In the launcher, before the first fork.
      def initialize
        @inbox, @outbox = UNIXSocket.pair
      end

      # In a process that serves.
      #
      # @param slot [Integer] its number in the page
      # @return [UNIXSocket] for Replies
      # @raise [SystemCallError] if there is no launcher any more
      def enrol(slot)
        ours, theirs = UNIXSocket.pair
        @outbox.sendmsg("#{slot} #{Process.pid}", 0, nil, Socket::AncillaryData.unix_rights(theirs))
        ours
      ensure
        theirs&.close
      end

      # In the watch: waits for the next one.
      #
      # @return [Array(Integer, Integer, UNIXSocket), nil] slot, process, and for Questions; nil: no descriptor was
      #   free for it. Who has sent it sees the end of the line, and comes again
      def receive
        text, _, _, rights = @inbox.recvmsg(MESSAGE, scm_rights: true)
        line = rights&.unix_rights&.first or return
        slot, pid = text.split.map(&:to_i)
        [slot, pid, UNIXSocket.for_fd(line.tap { |io| io.autoclose = false }.fileno)]
      end

      # @return [Integer] the descriptor that the watch needs
      def fileno = @inbox.fileno

      # In a process that serves, and has no use for what others send.
      def close_inbox = @inbox.close

      # Idempotent.
      def close = [@inbox, @outbox].each(&:close)
    end
  end
end
