# frozen_string_literal: true

# Gives a request's body back as it comes: reads by 64 KB into one buffer and yields that.
PIECE = 65_536
TYPE = { "content-type" => "application/octet-stream" }.freeze

# The one kind of streaming body that every server knows.
Echo = Struct.new(:input) do
  def each
    buffer = String.new(capacity: PIECE)
    yield buffer while input&.read(PIECE, buffer)
  end
end

run ->(env) { [200, TYPE.dup, Echo.new(env["rack.input"])] }
