# frozen_string_literal: true

require "io/wait" # before Ruby 3.2

module Abaca
  class Launcher
    # One end of a pair of sockets between two programs: lines, each with the descriptors that belong to it. They are a
    # stream, as not every system has pairs that keep messages apart.
    class Messages
      # Bytes that are taken at once.
      PIECE = 4096
      private_constant :PIECE

      # @return [Array(Messages, UNIXSocket)] this program's end, and the other's
      def self.pair
        ours, theirs = UNIXSocket.pair
        [new(ours), theirs]
      end

      # @param socket [UNIXSocket]
      def initialize(socket)
        @socket = socket
        @text = +""
        @ios = []
      end

      # @return [Integer]
      def fileno = @socket.fileno

      # @param line [String]
      # @param ios [Array<IO>] whose descriptors the other program gets, too
      # @raise [SystemCallError] if it has ended
      def put(line, *ios)
        @socket.sendmsg("#{line}\n", 0, nil, *(Socket::AncillaryData.unix_rights(*ios) unless ios.empty?))
      end

      # @param seconds [Numeric]
      # @return [Boolean] whether #receive has something by then
      def ready?(seconds) = @text.include?("\n") || !@socket.wait_readable(seconds).nil?

      # Waits for the next line.
      #
      # @return [Array(String, Array<IO>), nil] without descriptors that came before; nil: the other program has ended
      def receive
        take until (line = @text.slice!(/\A.*\n/))
        ios = @ios
        @ios = []
        [line.chomp, ios]
      rescue SystemCallError, EOFError
        nil
      end

      # Idempotent.
      def close = @socket.close

      private

      # Descriptors come with the first byte of their line, and no piece goes on behind them into another's.
      def take
        piece, _, _, *rights = @socket.recvmsg(PIECE, scm_rights: true)
        raise EOFError if piece.nil? || piece.empty?

        @text << piece
        @ios.concat(rights.flat_map { |data| data.unix_rights.to_a })
      end
    end
  end
end
