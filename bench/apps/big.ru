# frozen_string_literal: true

# A body of SIZE bytes in one String: the same frozen one for all at /shared, one that each request has
# for itself at /fresh (it shares its bytes, as strings do until they are changed), in pieces of 64 KB
# at /pieces.
BIG = ("x" * Integer(ENV.fetch("SIZE", "10000000"))).freeze
PIECE = 65_536
TYPE = { "content-type" => "application/octet-stream" }.freeze

run(lambda do |env|
  body = case env["PATH_INFO"]
         when "/shared" then [BIG]
         when "/fresh" then [BIG.dup]
         when "/pieces" then Enumerator.new { |out| (0...BIG.bytesize).step(PIECE) { |at| out << BIG[at, PIECE] } }
         else ["ready\n"]
         end
  [200, TYPE.dup, body]
end)
