# frozen_string_literal: true

# also: modes tls portable

require "test_helper"
require "support/server_case"
require "support/slow_clients"

# Clients that ask for much and read nothing: what they take of the machine, and of the app's places.
class OverloadSlowReadersTest < Minitest::Test
  include ServerCase
  include SlowClients

  # The kernel would take 4 MB for each of them.
  def test_the_kernel_holds_little_for_them
    running = serve(app, **SlowClients::PATIENCE)
    clients = Array.new(10) { reader(running, "/each") }
    assert eventually { in_phase(running, :drain) == clients.size }
    assert_equal "quick", ask(running).body
    assert_operator running.server.stats[:sent], :<, clients.size * 512 * 1024
    assert_equal [PIECES * PIECE.bytesize], clients.map { |client| size(client) }.uniq
  end
end
