# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/tls/trial"
require "openssl"
require "support/certificates"
require "support/programs"

# Certificates that come from somewhere else than files: an SSLContext of Ruby's, and the gem localhost.
class TLSSourcesTest < Minitest::Test
  include Programs

  SSL = OpenSSL::SSL

  def setup
    super
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    @folder = Dir.mktmpdir
    @made = Certificates.new(@folder)
    @pair = @made.make("a", names: ["a.test"])
    @home = ENV.to_h.slice("HOME", "XDG_STATE_HOME")
  end

  def teardown
    ENV.update("XDG_STATE_HOME" => nil, **@home) if @home
    FileUtils.rm_rf(@folder) if @folder
    super
  end

  def context(**given)
    SSL::SSLContext.new.tap do |context|
      context.cert = @pair.cert
      context.key = @pair.key
      given.each { |name, value| context.public_send(:"#{name}=", value) }
      yield context if block_given?
    end
  end

  def options(context, **given)
    Abaca::TLS::FromOpenSSL.options(Abaca::Config::TLS.new(context:, **given))
  end

  def fault(context, **given) = assert_raises(Abaca::ConfigError) { options(context, **given) }.message

  def test_what_is_taken
    taken = options(context)
    assert_equal [:none, nil, nil, nil], taken.values_at(:verify, :ca, :ciphers, :min_version)
    assert_equal 1, Abaca::TLSContext.new(**taken, name: "a").certificates.size
    chained = options(context(extra_chain_cert: [@made.authority.cert]))
    assert_equal 2, chained[:identities].first.first.scan("BEGIN CERTIFICATE").size
  end

  def test_who_is_verified
    ca = @made.authority.cert_path
    peer = SSL::VERIFY_PEER
    assert_equal :peer, options(context(verify_mode: peer, ca_file: ca))[:verify]
    forced = options(context(verify_mode: peer | SSL::VERIFY_FAIL_IF_NO_PEER_CERT, ca_file: ca))
    assert_equal [:force_peer, File.binread(ca)], forced.values_at(:verify, :ca)
    assert_match(/cert_store or ca_path cannot be read; give ca_file/, fault(context(verify_mode: peer)))
    assert_equal :peer, options(context(verify_mode: peer), ca:)[:verify]
    assert_equal :force_peer, options(context, ca:, verify_mode: :force_peer)[:verify]
    assert_match(%r{\Aca /no/such: No such file}, fault(context(verify_mode: peer, ca_file: "/no/such")))
    assert_match(%r{\Acrl /dev/zero: it has more than}, fault(context, crl: "/dev/zero"))
  end

  def test_versions_and_ciphers
    assert_equal 0x0304, options(context(min_version: SSL::TLS1_3_VERSION))[:min_version]
    assert_equal 0x0304, options(context(min_version: :TLS1_3))[:min_version]
    assert_nil options(context(min_version: :TLS1_2))[:min_version]
    assert_nil options(context)[:min_version]
    chosen = options(context(ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256"))
    assert_equal "ECDHE-ECDSA-AES128-GCM-SHA256", chosen[:ciphers]
    assert_equal "AES", options(context, ssl_cipher_filter: "AES")[:ciphers]
  end

  # With versions of the gem that do not tell which ones they allow.
  def test_versions_are_tried_out
    forced = { verify_mode: SSL::VERIFY_PEER | SSL::VERIFY_FAIL_IF_NO_PEER_CERT, ca_file: @made.authority.cert_path }
    [{}, forced].each do |more|
      accepts = [{}, { min_version: :TLS1_2 }, { min_version: :TLS1_3 }].map do |versions|
        Abaca::TLS::Trial.accepts?(context(**versions, **more), SSL::TLS1_2_VERSION)
      end
      assert_equal [true, true, false], accepts
    end
  end

  # Leaving these out would change who gets in, or as whom the server answers.
  def test_what_cannot_be_taken
    assert_match(/verify_callback cannot be taken; give verify_mode and ca/, fault(context(verify_callback: lambda { |*|
      true
    })))
    assert_match(/servername_cb cannot be taken/, fault(context(servername_cb: ->(*) {})))
    assert_match(/has no cert and key/, fault(SSL::SSLContext.new))
  end

  def development(host, developing: true)
    ENV["XDG_STATE_HOME"] = @folder
    settings = Abaca::Config::TLS.new
    Abaca::TLS::Source.new(settings, name: "ssl://#{host}:1", host:, developing:, folder: @folder)
  end

  def test_certificates_of_development
    { "127.0.0.1" => "localhost", "::1" => "localhost", "localhost" => "localhost", "app.test" => "app.test",
      nil => "localhost" }.each do |host, name|
      certificate, = development(host).read("s" * 32).context.certificates
      assert_equal [name], certificate[:names], host.inspect
    end
    first, second = Array.new(2) { development("localhost").read("s" * 32).context.certificates.first[:serial] }
    assert_equal first, second, "it is kept"
  end

  def test_one_that_has_expired_is_made_anew
    development("old.test").read("s" * 32)
    path, = Dir[File.join(@folder, "**/old.test.crt")]
    authority = Localhost::Authority.fetch("old.test")
    old = authority.certificate.dup
    old.not_after = Time.now - 60
    old.sign(authority.key, OpenSSL::Digest.new("SHA256"))
    File.write(path, old.to_pem)
    fresh, = development("old.test").read("s" * 32).context.certificates
    assert_operator fresh[:not_after], :>, Time.now + (300 * 86_400)
  end

  def test_production_has_none
    script = <<~RUBY
      require "abaca"
      source = Abaca::TLS::Source.new(Abaca::Config::TLS.new, name: "ssl://a:1", developing: ARGV.any?)
      def source.try
        check
        puts "fine"
      rescue Abaca::ConfigError => e
        puts e.message
      end
      source.try
      module Kernel
        alias real_require require
        def require(name) = name == "localhost" ? raise(LoadError, name) : real_require(name)
      end
      source.try
    RUBY
    run = lambda { |*words|
      run_program(RbConfig.ruby, "-I#{File.expand_path('../../lib', __dir__)}", "-e", script, *words)
    }
    assert_equal "ssl://a:1: a certificate is needed: cert= and key=\n" * 2, run.call
    fine, missing = run.call("developing").lines
    assert_equal "fine\n", fine
    assert_match(/\Assl:..a:1: no certificate: give cert= and key=, or add `gem "localhost"/, missing)
  end
end
