# frozen_string_literal: true

require "fileutils"
require "openssl"

module Bench
  # The certificates that all servers of a comparison show: made once, for 127.0.0.1 and localhost, in tmp/.
  module Certificate
    DAYS = 365
    KEYS = {
      ecdsa: -> { OpenSSL::PKey::EC.generate("prime256v1") },
      rsa: -> { OpenSSL::PKey::RSA.new(2048) }
    }.freeze

    module_function

    # @param kind [Symbol] of the key: :ecdsa (P-256) or :rsa (2048 bits)
    # @return [Hash{Symbol => String}] the paths of both files, :cert and :key
    def pair(kind)
      folder = File.join(TMP, "certificates")
      files = { cert: File.join(folder, "#{kind}.pem"), key: File.join(folder, "#{kind}.key") }
      return files if fresh?(files[:cert])

      FileUtils.mkdir_p(folder)
      key = KEYS.fetch(kind).call
      File.write(files[:key], key.private_to_pem, perm: 0o600)
      File.write(files[:cert], certificate(key).to_pem)
      files
    end

    def fresh?(path) = File.exist?(path) && Time.now - File.mtime(path) < DAYS * 86_400 / 2

    def certificate(key)
      OpenSSL::X509::Certificate.new.tap do |cert|
        cert.version = 2
        cert.serial = rand(1 << 64)
        cert.subject = cert.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
        cert.not_before = Time.now - 86_400
        cert.not_after = Time.now + (DAYS * 86_400)
        cert.public_key = key
        extensions = OpenSSL::X509::ExtensionFactory.new(cert, cert)
        cert.add_extension(extensions.create_extension("subjectAltName", "DNS:localhost,IP:127.0.0.1"))
        cert.sign(key, "SHA256")
      end
    end
    private_class_method :fresh?, :certificate
  end
end
