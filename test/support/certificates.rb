# frozen_string_literal: true

require "openssl"

# Certificates that a test makes for itself, by keys of P-256, which take no time. They stand in the test's folder as
# files.
class Certificates
  DAY = 86_400

  # A certificate and its key.
  Pair = Struct.new(:cert, :key, :cert_path, :key_path, :certs) do
    # What a configuration says of it.
    def files = { cert: cert_path, key: key_path }

    def texts = { cert_pem: certs.map(&:to_pem).join, key_pem: key.to_pem }
  end

  # @return [Pair] the authority that signs the others
  attr_reader :authority

  def initialize(folder)
    @folder = folder
    @serial = 0
    @authority = make("ca", subject: "/CN=Test authority", authority: true)
  end

  # What a certificate is unless a test says something else.
  #
  # names: hosts; subject: by default the first of them; days: from now until it expires; from: days until it begins;
  # issuer: a Pair, :authority or nil for itself; authority: whether it may sign others; kind: :ec or :rsa;
  # password: of the key's file; others: certificates of the file behind its own, nil for those that lead to the root
  USUAL = { names: [], subject: nil, days: 90, from: -1, issuer: :authority, authority: false, kind: :ec, password: nil,
            others: nil }.freeze

  # Makes one, and writes it with its chain.
  #
  # name: of its files; options: as USUAL
  def make(name, **options)
    options = USUAL.merge(options)
    options[:issuer] = @authority if options[:issuer] == :authority
    options[:subject] ||= "/CN=#{options[:names].first || name}"
    key = options[:kind] == :rsa ? OpenSSL::PKey::RSA.new(2048) : OpenSSL::PKey::EC.generate("prime256v1")
    cert = certificate(key, options)
    certs = [cert, *(options[:others] || intermediates(options[:issuer]))]
    Pair.new(cert, key, path(name, "pem"), path(name, "key"), certs).tap { |pair| write(pair, options[:password]) }
  end

  # Signs a list of revoked certificates.
  # @return [String] its file
  def revoke(*pairs)
    list = OpenSSL::X509::CRL.new
    list.version = 1
    list.issuer = @authority.cert.subject
    list.last_update = Time.now - DAY
    list.next_update = Time.now + DAY
    pairs.each do |pair|
      list.add_revoked(OpenSSL::X509::Revoked.new.tap do |one|
        one.serial = pair.cert.serial
        one.time = Time.now - 60
      end)
    end
    list.sign(@authority.key, OpenSSL::Digest.new("SHA256"))
    path("revoked", "crl").tap { |file| File.write(file, list.to_pem) }
  end

  # The same names, another certificate.
  def renew(pair, **options)
    name = File.basename(pair.cert_path, ".pem")
    names = pair.cert.extensions.find { |one| one.oid == "subjectAltName" }.value.scan(/DNS:([^,]+)/).flatten
    make(name, names: names, **options)
  end

  private

  def path(name, extension) = File.join(@folder, "#{name}.#{extension}")

  # A root is known to clients.
  def intermediates(issuer) = issuer.nil? || issuer == @authority ? [] : issuer.certs

  def certificate(key, options)
    issuer = options[:issuer]
    OpenSSL::X509::Certificate.new.tap do |cert|
      cert.version = 2
      cert.serial = @serial += 1
      cert.subject = OpenSSL::X509::Name.parse(options[:subject])
      cert.issuer = issuer ? issuer.cert.subject : cert.subject
      cert.public_key = key
      cert.not_before = Time.now + (options[:from] * DAY)
      cert.not_after = Time.now + (options[:days] * DAY)
      extend_certificate(cert, options[:names], issuer, options[:authority])
      cert.sign(issuer ? issuer.key : key, OpenSSL::Digest.new("SHA256"))
    end
  end

  def extend_certificate(cert, names, issuer, authority)
    factory = OpenSSL::X509::ExtensionFactory.new(issuer ? issuer.cert : cert, cert)
    cert.add_extension(factory.create_extension("basicConstraints", authority ? "CA:TRUE" : "CA:FALSE", true))
    cert.add_extension(factory.create_extension("subjectKeyIdentifier", "hash"))
    cert.add_extension(factory.create_extension("keyUsage", "keyCertSign,cRLSign", true)) if authority
    return if names.empty?

    list = names.map { |name| name.match?(/\A[\d.]+\z/) ? "IP:#{name}" : "DNS:#{name}" }
    cert.add_extension(factory.create_extension("subjectAltName", list.join(",")))
  end

  def write(pair, password)
    File.write(pair.cert_path, pair.certs.map(&:to_pem).join)
    key = password ? pair.key.private_to_pem(OpenSSL::Cipher.new("aes-128-cbc"), password) : pair.key.private_to_pem
    File.write(pair.key_path, key)
  end
end
