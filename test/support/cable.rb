# frozen_string_literal: true

require "json"

# A client of Action Cable: as much of WebSocket as it takes.
class Cable
  UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n"
  MASK = [1, 2, 3, 4].freeze

  attr_reader :head

  # stream: a Wire::Client that has asked for the upgrade; channel: the name of its class.
  def initialize(stream, channel)
    @stream = stream
    @identifier = JSON.generate(channel:)
    @bytes = String.new(encoding: Encoding::BINARY)
    more until (stop = @bytes.index("\r\n\r\n"))
    @head = @bytes.slice!(0, stop + 4)
  end

  # Sends a command for the channel, as one masked frame.
  def send(command, **rest)
    text = JSON.generate({ command:, identifier: @identifier, **rest })
    masked = text.bytes.each_with_index.map { |byte, nth| byte ^ MASK[nth % 4] }
    @stream.write([0x81, 0x80 | 126, text.bytesize, *MASK, *masked].pack("CCnC*"))
  end

  # The next message but for pings.
  def receive
    loop do
      message = JSON.parse(frame)
      return message unless message["type"] == "ping"
    end
  end

  private

  # The text of the next frame.
  def frame
    more until @bytes.bytesize >= 4
    size = @bytes.getbyte(1)
    head, size = size == 126 ? [4, @bytes[2, 2].unpack1("n")] : [2, size]
    more until @bytes.bytesize >= head + size
    @bytes.slice!(0, head + size)[head..]
  end

  def more
    piece = @stream.read_some or raise EOFError, "the connection has ended"
    @bytes << piece
  end
end
