# frozen_string_literal: true

# An app that has much to send and to read, and clients that keep it waiting. For test classes with ServerCase.
module SlowClients
  TYPE = { "content-type" => "text/plain" }.freeze
  PIECE = ("x" * 65_536).freeze
  PIECES = 160
  # A slow machine reads from one client after the other.
  PATIENCE = { write_timeout: 600 }.freeze

  def setup
    super
    @gate = Queue.new
  end

  def app
    lambda do |env|
      body = case env["PATH_INFO"]
             when "/each" then Enumerator.new { |out| PIECES.times { out << PIECE } }
             when "/array" then Array.new(PIECES, PIECE)
             when "/call" then ->(stream) { stream.write(*Array.new(PIECES, PIECE)) && stream.close }
             when "/body" then [env["rack.input"].read.bytesize.to_s]
             when "/wait" then [@gate.pop]
             else ["quick"]
             end
      [200, TYPE.dup, body]
    end
  end

  # A client that asks and does not read.
  def reader(running, path) = connect(running, receive_buffer: 4096).write(request("GET", path))

  # The bytes of the body that a client has not read yet.
  def size(client) = client.read.body.bytesize
end
