# frozen_string_literal: true

require "test_helper"
require "support/http2_client"
require "support/process_case"
require "support/test_build"

# What a connection takes that has had an answer and waits.
class Http2IdleTest < Minitest::Test
  include ProcessCase

  MOST = 32_768
  COUNT = 400

  def test_memory
    skip "a sanitizer keeps what is freed" if TestBuild.sanitized?
    File.write(File.join(@directory, "config.ru"), "run ->(_) { [200, {}, ['Hello']] }")
    command = start_abaca("-b", "tcp://127.0.0.1:0?h2c=true", "config.ru")
    idle = connected(command.port, 50) # the heap grows now, not later
    before = command.resident
    idle.concat(connected(command.port, COUNT))
    assert_operator (command.resident - before) / COUNT, :<, MOST
  ensure
    idle&.each(&:close)
  end

  private

  def connected(port, count)
    Array.new(count) do
      client = Http2Client.new(port, before: "preface settings")
      client.send_words("headers 1 es,eh :get")
      client.read_until { client.complete?(1) }
    end
  end
end
