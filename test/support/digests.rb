# frozen_string_literal: true

require "digest/sha2"

# Apps for request bodies, and their answers. For test classes with ServerCase.
module Digests
  # Reads the body to its end and answers its size and digest.
  DIGEST = lambda do |env|
    digest = Digest::SHA256.new
    size = 0
    while (piece = env["rack.input"].read(50_000))
      size += piece.bytesize
      digest << piece
    end
    [200, { "content-type" => "text/plain" }, ["#{size} #{digest.hexdigest}"]]
  end

  # Does not look at it.
  IGNORE = ->(_env) { [200, { "content-type" => "text/plain" }, ["ignored"]] }

  private

  # What DIGEST answers to `body`.
  def summary(body) = "#{body.bytesize} #{Digest::SHA256.hexdigest(body)}"
end
