# frozen_string_literal: true

require "test_helper"
require "abaca"
require "pathname"

# `ssl://`, `ssl_bind`, `certificate` and what belongs to them: the words of a configuration, without any file that
# they name.
class ConfigTLSTest < Minitest::Test
  Bind = Abaca::Config::Bind

  def setup
    super
    without = name == "test_a_build_without_the_library"
    skip "this build has#{' no' unless without} TLS" if Abaca::TLS_LIBRARY.nil? ^ without
  end

  def test_a_build_without_the_library
    text = failure("ssl://0:1")
    assert_match(/\Assl:..0:1: this build has no TLS; install OpenSSL and compile Abaca again/, text)
    assert_includes text, "(Debian: apt-get install libssl-dev)"
    error = assert_raises(Abaca::ConfigError) { binds("dev_tls", environment: "development") }
    assert_match(/this build has no TLS/, error.message)
  end

  # The places of a configuration file.
  def binds(text, environment: "production", **settings)
    Dir.mktmpdir do |dir|
      path = File.join(dir, "puma.rb")
      File.write(path, text)
      config = Abaca::Config::Loader.new({ environment:, **settings }, files: [path], env: {}).load
      return config.binds.each { |bind| bind.place&.delete_prefix("#{dir}/") }
    end
  end

  def failure(url, **given)
    assert_raises(Abaca::ConfigError) { Bind.parse(url, **given) }.message
  end

  def test_the_url
    bind = Bind.parse("ssl://[::1]:443?cert=/a%20b.pem&key=k&backlog=5&low_latency=false&no_tlsv1=true&" \
                      "no_tlsv1_1=true&reuse=dflt&max_body_size=7&proxy_protocol=v2&http2=false&min_version=1.3&" \
                      "ssl_cipher_filter=ECDHE+AESGCM&ssl_ciphersuites=TLS_AES_128_GCM_SHA256&plain_http=redirect")
    tls = bind.tls
    assert_equal ["ssl://[::1]:443", "tcp://[::1]:443"], [bind.to_s, bind.socket_url]
    assert_equal [["/a b.pem", "k"]], tls.certificates.map { |one| [one.cert, one.key] }
    assert_equal({ backlog: 5, limits: { max_body_size: 7 }, proxy_protocol: :v2, plain_http: :redirect },
                 bind.options.slice(:backlog, :limits, :proxy_protocol, :plain_http))
    assert_equal ["ECDHE+AESGCM", "TLS_AES_128_GCM_SHA256", 0x0304, false, :none],
                 [tls.ciphers, tls.ciphersuites, tls.min_version, tls.http2?, tls.verify_mode]
  end

  def test_several_certificates_of_a_url
    tls = Bind.parse("ssl://0:1?cert=a&key=ak&cert=b&key=bk&key_password_command=c&key=ck&cert=c").tls
    assert_equal [["a", "ak", nil], %w[b bk c], ["c", "ck", nil]],
                 tls.certificates.map { |one| [one.cert, one.key, one.key_password_command] }
  end

  def test_ssl_bind_as_in_puma
    text = <<~RUBY
      ssl_bind "0.0.0.0", 9292, { cert: "a", key: "b", verify_mode: "peer", ca: "c", backlog: 9,
                                  verification_flags: %w[CRL_CHECK CRL_CHECK_ALL], reuse: { size: 1, timeout: 2 } }
      ssl_bind "::", "9293", cert_pem: "-----BEGIN", key_pem: "-----KEY", ssl_cipher_filter: nil, low_latency: true
    RUBY
    first, second = binds(text)
    assert_equal ["ssl://0.0.0.0:9292", "ssl://[::]:9293"], [first.to_s, second.to_s]
    assert_equal [:peer, "c", 0x4 | 0x8, 9],
                 [first.tls.verify_mode, first.tls.ca, first.tls.verification_flags, first.options[:backlog]]
    assert_equal "-----BEGIN", second.tls.certificates.first.cert_pem
    assert_match(/:1\z/, first.place)
  end

  # As `Rails.root.join` makes them.
  def test_paths_that_are_no_strings
    tls = Bind.parse("ssl://0:1", cert: Pathname("a"), key: Pathname("b"), ca: Pathname("c")).tls
    assert_equal [%w[a b], "c"], [tls.certificates.map { |one| [one.cert, one.key] }.first, tls.ca]
    assert_equal "k", Abaca::Config.new({ tls_ticket_key_file: Pathname("k") })[:tls_ticket_key_file]
  end

  # With the gem localhost, or in development.
  def test_ssl_bind_without_a_certificate
    bind, = binds("ssl_bind '0.0.0.0', 9292")
    assert_equal ["ssl://0.0.0.0:9292", []], [bind.to_s, bind.tls.certificates]
  end

  def test_certificates_of_all_places
    text = "certificate cert: 'a', key: 'b'\ncertificate cert_pem: 'c', key_pem: 'd', key_password_command: 'e'\n"
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "puma.rb"), text)
      config = Abaca::Config::Loader.new({}, files: ["#{dir}/puma.rb"], env: {}).load
      assert_equal(["a", nil], config[:certificates].map(&:cert))
      assert_equal(["#{dir}/puma.rb:1", "#{dir}/puma.rb:2"], config[:certificates].map(&:place))
      refute_includes Abaca::Config::Report.new(config).lines.join, "\"d\""
    end
    assert_equal "x", Abaca::Config.new({ certificates: [{ cert: "x", key: "y" }] })[:certificates].first.cert
  end

  # Nothing of a key is in what is logged.
  def test_keys_are_not_shown
    bind = Bind.parse("ssl://0:1", cert_pem: "CERT", key_pem: "HUSH")
    [bind.inspect, bind.tls.inspect, bind.tls.certificates.inspect, bind.tls.to_s].each do |text|
      refute_includes text, "HUSH"
    end
  end

  def test_redirects
    text = <<~RUBY
      bind "tcp://0.0.0.0:80", redirect: :https
      bind "tcp://0.0.0.0:81?redirect=https&redirect_hosts=A.test,*.b.test&redirect_port=1"
      bind "ssl://0.0.0.0:8443?cert=a&key=b"
      bind "tcp://0.0.0.0:82"
    RUBY
    options = binds(text).map { |bind| bind.options.slice(:redirect, :redirect_hosts, :redirect_port) }
    assert_equal({ redirect: :https, redirect_port: 8443 }, options[0])
    assert_equal({ redirect: :https, redirect_hosts: ["a.test", "*.b.test"], redirect_port: 1 }, options[1])
    assert_equal [{}, {}], options[2..]
  end

  # Nobody would be sent anywhere.
  def test_a_redirect_without_hosts
    warnings = lambda do |*urls|
      Abaca::Config.new({ binds: urls.map { |url| Bind.parse(url, place: "puma.rb:1") } }).warnings
    end
    assert_equal ["puma.rb:1: tcp://0:1: redirect answers 421 to all: there is no ssl:// place; name hosts in " \
                  "redirect_hosts"], warnings.call("tcp://0:1?redirect=https", "tcp://0:2")
    assert_empty warnings.call("tcp://0:1?redirect=https&redirect_hosts=a.test")
    assert_empty warnings.call("tcp://0:1?redirect=https", "ssl://0:2?cert=a&key=b")
  end

  def test_development
    assert_equal %w[ssl://127.0.0.1:3000 unix:///a tcp://127.0.0.1:80],
                 binds("dev_tls\nport 3000\nbind 'unix:///a'\nbind 'tcp://127.0.0.1:80', redirect: :https",
                       environment: "development").map(&:to_s)
    assert_equal ["ssl://127.0.0.1:9292"], binds("dev_tls", environment: "development").map(&:to_s)
    assert_match(/\Adev_tls: .*development/, assert_raises(Abaca::ConfigError) { binds("dev_tls") }.message)
  end

  def test_what_is_wrong
    {
      "ssl://0:1?cert=a" => "ssl://0:1?cert=a: a certificate needs key=, a file, or key_pem, its text",
      "ssl://0:1?cert=a&cert_pem=b&key=c" =>
        "ssl://0:1?cert=a&cert_pem=b&key=c: a certificate needs cert=, a file, or cert_pem, its text, not both",
      "ssl://0:1?verify_mode=all" => /\Assl:.*: verify_mode: none, peer or force_peer is needed, not "all"\z/,
      "ssl://0:1?verify_mode=force_peer" => /verify_mode force_peer needs ca=/,
      "ssl://0:1?verification_flags=CRL_CHEK" => /unknown flag CRL_CHEK \(did you mean `CRL_CHECK'\?\)/,
      "ssl://0:1?min_version=1.1" => /min_version: 1.2 or 1.3 is needed, not "1.1"/,
      "ssl://0:1?cert=a%00b&key=c" => /cert: it has a null byte/,
      "ssl://0:1?cert=a&key=c&crl=%00" => /crl: it has a null byte/,
      "ssl://0:1?keystore=a" => /keystore is for JRuby/,
      "ssl://0:1?h2c=true" => /unknown parameter h2c/,
      "ssl://0:1?crt=a" => /unknown parameter crt \(did you mean `cert'\?\)/,
      "ssl://0:1?plain_http=yes" => /plain_http: refuse or redirect is needed, not "yes"/,
      "ssl://0:70000" => /a port is a number from 0 to 65535/,
      "ssl://0" => /invalid URI/,
      "tcp://0:1?cert=a" => /unknown parameter cert/,
      "tcp://0:1?redirect=http" => /redirect: https is needed, not "http"/,
      "tcp://0:1?redirect=https&redirect_hosts=a%20b" => /redirect_hosts: "a b" is no host/,
      "tcp://0:1?redirect_hosts=a.test" => /redirect_hosts has no effect without redirect=https/,
      "tcp://0:1?redirect_port=1" => /redirect_port has no effect without redirect=https/,
      "unix:///a?redirect=https" => /unknown parameter redirect/
    }.each { |url, message| assert_operator message, :===, failure(url), url }
    assert_match(/cert: a String is needed, not 1/, failure("ssl://0:1", cert: 1, key: "a"))
    assert_match(/unknown parameter crt \(did you mean `cert'\?\)/,
                 assert_raises(Abaca::ConfigError) { binds("certificate crt: 'a', key: 'b'") }.message)
    { 1 => "a String is needed, not 1", "a\0b" => "it has a null byte" }.each do |path, message|
      error = assert_raises(Abaca::ConfigError) { Abaca::Config.new({ tls_ticket_key_file: path }) }
      assert_equal "tls_ticket_key_file: #{message}", error.message
    end
  end

  # Objects that a URL, or a slip, makes something else.
  def test_objects_of_another_kind
    assert_match(/context: an OpenSSL::SSL::SSLContext is needed, not "x"/, failure("ssl://0:1?context=x"))
    assert_match(/a certificate needs key=/, failure("ssl://0:1?certificates=x"))
    assert_match(/a certificate needs key=/, failure("ssl://0:1", certificates: 5))
    pair = { cert: "a", key: "b" }
    assert_equal ["a"], Bind.parse("ssl://0:1", certificates: pair).tls.certificates.map(&:cert)
    [-1, 2**70, 0x1].each do |flags|
      assert_match(/verification_flags: unknown bits in #{flags}/,
                   failure("ssl://0:1", **pair, verification_flags: flags))
    end
    assert_equal 0x200004, Bind.parse("ssl://0:1", **pair, verification_flags: 0x200004).tls.verification_flags
    [[nil], [5], ["a.test", ""], "\xff"].each do |hosts|
      assert_match(/redirect_hosts: .+ is no host/, failure("tcp://0:1?redirect=https", redirect_hosts: hosts))
    end
    assert_match(/redirect_hosts: .+ is no host/, failure("tcp://0:1?redirect=https&redirect_hosts=%ff"))
  end

  # A name alone turns a switch on, and is no value of anything else: least of all is it passed over.
  def test_names_without_a_value
    switches = Bind.parse("tcp://0:1?reuse_port&defer_accept").options
    assert_equal [true, true], switches.values_at(:reuse_port, :defer_accept)
    assert_predicate Bind.parse("ssl://0:1?cert=a&key=b&http2").tls, :http2?
    assert_match(/verify_mode: none, peer or force_peer is needed/, failure("ssl://0:1?cert=a&key=b&verify_mode"))
    assert_match(/a certificate needs key=/, failure("ssl://0:1?cert"))
    assert_match(/backlog= is not a number that fits/, failure("tcp://0:1?backlog"))
    assert_match(/redirect_port= is not a number that fits/, failure("tcp://0:1?redirect_port"))
    assert_nil Bind.parse("unix:///a", umask: nil).options[:umask]
  end

  # A URL is in the list of processes, and in messages.
  def test_keys_do_not_stand_in_urls
    message = failure("ssl://0:1?cert=a&key_pem=HUSH%20HUSH&backlog=1")
    assert_match(/key_pem is for Ruby, not for a URL; name a file/, message)
    refute_includes message, "HUSH"
    refute_includes failure("ssl://0:1", cert: "a", key_pem: ["HUSH"]), "HUSH"
    message = failure("ssl://0:1", cert: "a", key: "-----BEGIN PRIVATE KEY-----\nHUSH\n")
    assert_match(/key names a file; text is for key_pem/, message)
    refute_includes message, "HUSH"
  end

  def test_files_name_the_line
    error = assert_raises(Abaca::ConfigError) { binds("\ncertificate cert: 'a'") }
    assert_match(/puma\.rb:2: a certificate needs key=/, error.message)
    error = assert_raises(Abaca::ConfigError) { binds("\n\nssl_bind '0', 1, verify_mode: :peer") }
    assert_match(/puma\.rb:3: ssl:.*needs ca=/, error.message)
  end
end
