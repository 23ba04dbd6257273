# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Clients that ask for much and read nothing: what they take of the machine, and of the app's places.
class OverloadSlowReadersTest < Minitest::Test
  include ServerCase

  TYPE = { "content-type" => "text/plain" }.freeze
  PIECE = ("x" * 65_536).freeze
  PIECES = 160

  def app
    lambda do |env|
      body = case env["PATH_INFO"]
             when "/each" then Enumerator.new { |out| PIECES.times { out << PIECE } }
             when "/array" then Array.new(PIECES, PIECE)
             when "/small" then Array.new(PIECES * 64) { "y" * 1024 }
             else ["quick"]
             end
      [200, TYPE.dup, body]
    end
  end

  def stalled(running, path)
    connect(running, receive_buffer: 4096).write(request("GET", path))
  end

  def draining(running) = running.server.requests.count { |request| request[:phase] == :drain }

  # The kernel would take 4 MB for each of them.
  def test_the_kernel_holds_little_for_them
    running = serve(app)
    clients = Array.new(10) { stalled(running, "/each") }
    assert eventually { draining(running) == clients.size }
    assert_equal "quick", ask(running).body
    assert_operator running.server.stats[:sent], :<, clients.size * 512 * 1024
    assert_equal [PIECES * PIECE.bytesize], clients.map { |client| client.read.body.bytesize }.uniq
  end
end
