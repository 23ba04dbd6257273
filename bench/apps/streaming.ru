# frozen_string_literal: true

# A body of unknown length: PIECES pieces of PIECE bytes each, one after the other.
pieces = Integer(ENV.fetch("PIECES", "1024"))
piece = ("x" * Integer(ENV.fetch("PIECE", "1024"))).freeze

# Rack's "Enumerable Body" and nothing else.
body = Class.new do
  define_method(:each) do |&block|
    pieces.times { block.call(piece) }
  end
end

run ->(_env) { [200, { "content-type" => "text/plain" }, body.new] }
