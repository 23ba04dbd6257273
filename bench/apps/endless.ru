# frozen_string_literal: true

# /endless is a body without end, in pieces of 1 KB; all else is answered at once.
piece = ("x" * 1024).freeze
pieces = Class.new { define_method(:each) { |&block| loop { block.call(piece) } } }

run lambda { |env|
  next [200, { "content-type" => "text/plain" }, pieces.new] if env["PATH_INFO"] == "/endless"

  [200, { "content-type" => "text/plain" }, ["Hello World\n"]]
}
