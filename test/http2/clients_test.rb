# frozen_string_literal: true

require "test_helper"
require "support/http2_clients"

# Clients of HTTP/2 without TLS.
class Http2ClientsTest < Minitest::Test
  include Http2Clients

  def place = "tcp://127.0.0.1:0?h2c=true"

  def http2_words = %w[--http2-prior-knowledge]
end
