# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/http2_files"
require "support/server_case"

# Files over HTTP/2 without TLS: they leave by sendfile, between the heads of their frames.
class Http2FilesTest < Minitest::Test
  include ServerCase
  include Http2Files

  def client_of(app, before:)
    port = serve(app, lint: false).server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true)
    Http2Client.new(port, before: before).tap { |client| @clients << client }
  end
end
