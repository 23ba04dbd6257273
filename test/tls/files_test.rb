# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/http2_files"
require "support/tls_case"

# Files over HTTP/2 in TLS: they are read straight into what is encrypted, with the heads of their frames.
class TLSFilesTest < Minitest::Test
  include TLSCase
  include Http2Files

  def client_of(app, before:)
    _, port = serve_tls(app, lint: false)
    secure_http2(port, before: before)
  end
end
