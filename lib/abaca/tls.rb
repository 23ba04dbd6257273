# frozen_string_literal: true

module Abaca
  # TLS around what the native part does: it reads certificates and keys, checks them, and gives them to listeners
  # (docs/tls.md). Everything here is loaded by the first `ssl://` place.
  module TLS
    autoload :Development, File.expand_path("tls/development", __dir__)
    autoload :Expiry, File.expand_path("tls/expiry", __dir__)
    autoload :FromOpenSSL, File.expand_path("tls/from_openssl", __dir__)
    autoload :Keeper, File.expand_path("tls/keeper", __dir__)
    autoload :Material, File.expand_path("tls/material", __dir__)
    autoload :Secret, File.expand_path("tls/secret", __dir__)
    autoload :Shelf, File.expand_path("tls/shelf", __dir__)
    autoload :Source, File.expand_path("tls/source", __dir__)
  end
end
