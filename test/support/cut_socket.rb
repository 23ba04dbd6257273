# frozen_string_literal: true

require "socket"

# A connection whose bytes to the server leave in pieces of a size, each in a segment of TCP of its own. A thread
# carries them, until one side ends.
module CutSocket
  # peer: a connected TCP socket, which is closed with the other end; size: bytes of a piece; returns that other end.
  def self.over(peer, size)
    ours, theirs = UNIXSocket.pair
    peer.setsockopt(:TCP, :NODELAY, 1)
    Thread.new { carry(theirs, peer, size) }
    ours
  end

  def self.carry(near, far, size)
    loop do
      ready, = IO.select([near, far])
      ready.each do |from|
        data = from.readpartial(65_536)
        from == far ? near.write(data) : send_in_pieces(far, data, size)
      end
    end
  rescue EOFError, SystemCallError
    nil # one of them has gone
  ensure
    [near, far].each(&:close)
  end

  # A peer that takes no more may have said something before.
  def self.send_in_pieces(far, data, size)
    data.scan(/.{1,#{size}}/mn) { |piece| far.write(piece) }
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil
  end
  private_class_method :carry, :send_in_pieces
end
