# frozen_string_literal: true

# For clients that are slow: reads the body of a POST, streams 10 MB in pieces of 64 KB at /pieces, and is quick
# at every other path.
# The guest's scheduler is the one that the tests have.
require_relative "../../test/support/plain_scheduler"

PIECE = ("x" * 65_536).freeze
TYPE = { "content-type" => "text/plain" }.freeze

run(lambda do |env|
  body = if env["REQUEST_METHOD"] == "POST" then [env["rack.input"].read.bytesize.to_s]
         elsif env["PATH_INFO"] == "/pieces" then Enumerator.new { |out| 160.times { out << PIECE } }
         else ["ready\n"]
         end
  [200, TYPE.dup, body]
end)
