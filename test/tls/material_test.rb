# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/certificates"

# Certificates and keys on their way from files to the native part: each fault is one sentence that names the file.
class TLSMaterialTest < Minitest::Test
  def setup
    super
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    @folder = Dir.mktmpdir
    @made = Certificates.new(@folder)
    @pair = @made.make("a", names: %w[a.test *.a.test])
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
    super
  end

  def source(place: nil, certificates: [], developing: false, **given)
    settings = Abaca::Config::TLS.new(**given)
    Abaca::TLS::Source.new(settings, name: "ssl://a:1", place:, certificates:, developing:, folder: @folder)
  end

  def read(**given) = source(**given).read("s" * 32)

  def fault(**given) = assert_raises(Abaca::ConfigError) { read(**given) }.message

  def test_files_and_texts
    certificate, = read(**@pair.files).context.certificates
    assert_equal [%w[a.test *.a.test], @pair.cert_path, "CN=a.test"], certificate.values_at(:names, :label, :subject)
    assert_in_delta Time.now + (90 * 86_400), certificate[:not_after], 60
    assert_match(/EC.*256/, certificate[:key])
    assert_equal [%w[a.test *.a.test]], read(**@pair.texts).context.certificates.map { |one| one[:names] }
    relative = { cert: "a.pem", key: "./a.key" }
    assert_equal 1, read(**relative).context.certificates.size
  end

  def test_authorities_of_clients
    ca = @made.authority.cert_path
    [{ ca: }, { ca_pem: File.read(ca) }].each do |given|
      assert_equal File.binread(ca), read(**@pair.files, **given, verify_mode: "peer").options[:ca]
    end
    assert_match(/ca: there is no certificate in it/, fault(**@pair.files, ca_pem: "none", verify_mode: "peer"))
  end

  def test_names
    context = read(**@pair.files).context
    assert_equal([true, true, false, false], %w[A.test b.a.test c.b.a.test b.test].map { |name| context.name?(name) })
  end

  def test_files_that_cannot_be_read
    FileUtils.mkdir(File.join(@folder, "d"))
    File.write(File.join(@folder, "empty"), "")
    assert_match(/\Assl:..a:1: certificate no.pem: No such file/, fault(cert: "no.pem", key: "a.key"))
    assert_match(/\Assl:..a:1: key no.key: No such file/, fault(cert: "a.pem", key: "no.key"))
    assert_match(/\Assl:..a:1: certificate d: it is a folder/, fault(cert: "d", key: "a.key"))
    assert_match(/\Assl:..a:1: certificate empty: it is empty/, fault(cert: "empty", key: "a.key"))
    assert_match(/ca no.pem: No such file/, fault(**@pair.files, ca: "no.pem", verify_mode: :peer))
    assert_match(/crl no.pem: No such file/, fault(**@pair.files, crl: "no.pem"))
    assert_match(%r{key /dev/zero: it has more than 16777216 bytes}, fault(cert: "a.pem", key: "/dev/zero"))
  end

  def test_a_file_without_rights
    File.chmod(0, @pair.key_path)
    File.chmod(0o755, @folder)
    text = IO.popen("-") do |pipe|
      next pipe.read if pipe

      Process::UID.change_privilege(65_534) if Process.uid.zero? # root may read everything
      puts fault(**@pair.files)
    ensure
      $stdout.flush
      exit!(0) unless pipe
    end
    assert_match(/\Assl:..a:1: key .*a.key: Permission denied$/, text)
  end

  # The native part says what is wrong; the sentence names the file.
  def test_certificates_that_are_of_no_use
    other = @made.make("other", names: ["b.test"])
    expired = @made.make("old", names: ["a.test"], from: -9, days: -1)
    early = @made.make("early", names: ["a.test"], from: 2)
    File.write(File.join(@folder, "text.pem"), "no certificate\n")
    assert_match(/a\.pem/, fault(cert: "a.pem", key: other.key_path))
    assert_match(/old\.pem.*expired/, fault(**expired.files))
    assert_match(/early\.pem.*not.*yet|early\.pem.*valid/, fault(**early.files))
    assert_match(/text\.pem/, fault(cert: "text.pem", key: "a.key"))
    assert_match(/a\.pem|other\.pem/, fault(cert: "a.pem", key: "other.pem"))
  end

  def test_encrypted_keys
    locked = @made.make("locked", names: ["a.test"], password: "open sesame")
    assert_equal 1, read(**locked.files, key_password_command: "echo open sesame").context.certificates.size
    assert_match(/locked/, fault(**locked.files))
    assert_match(/locked/, fault(**locked.files, key_password_command: "echo wrong"))
    assert_match(/key_password_command "exit 3" has failed \(exit 3\)/,
                 fault(**locked.files, key_password_command: "exit 3"))
    assert_match(/key_password_command "exec kill -9 \$\$" has failed \(SIGKILL/,
                 fault(**locked.files, key_password_command: "exec kill -9 $$"))
    assert_match(/key_password_command "yes" prints more than 4096 bytes/,
                 fault(**locked.files, key_password_command: "yes"))
    assert_match(%r{key_password_command "/no/such": No such file},
                 fault(**locked.files, key_password_command: "/no/such"))
  end

  # Errors show the objects that they come from, and may end in a log.
  def test_nothing_secret_is_shown
    given = source(**@pair.texts)
    reading = given.read("s" * 32)
    given.keep(reading)
    server = Abaca::Server.new(->(_) {})
    server.add_ssl_listener("127.0.0.1", 0, **@pair.texts)
    drawn = Abaca::TLS::Secret.new(nil)
    material = Abaca::TLS::Material.new(Abaca::Config::TLS.new(**@pair.texts))
    secrets = ["PRIVATE", "s" * 32, *[drawn, server.send(:ticket_secret)].map { |one| one.bytes.inspect[1..-2] }]
    [given, reading, material, drawn, server].each do |one|
      [one.inspect, one.to_s].each { |text| secrets.each { |secret| refute text.b.include?(secret.b), one.class } }
    end
  end

  def test_places
    assert_match(/\Apuma.rb:7: ssl:..a:1: certificate no: /, fault(place: "puma.rb:7", cert: "no", key: "no"))
    line = Abaca::Config::TLS::Certificate.of({ cert: "no", key: "no" }, place: "puma.rb:9")
    assert_match(/\Apuma.rb:9: certificate no: /, fault(place: "puma.rb:7", certificates: [line]))
    assert_equal 2, read(**@pair.files, certificates: [line.dup.tap { |one| one.cert, one.key = *@pair.files.values }])
      .context.certificates.size
  end

  def test_stale_files
    one = source(**@pair.files)
    one.keep(one.read("s" * 32))
    refute_predicate one, :stale?
    File.write(@pair.cert_path, "nonsense")
    assert_predicate one, :stale?
    assert_raises(Abaca::ConfigError) { one.read("s" * 32) }
    refute_predicate one, :stale? # it is not tried again until it changes
    assert_equal 1, one.context.certificates.size
    @made.renew(@pair)
    assert_predicate one, :stale?
    File.delete(@pair.key_path)
    assert_predicate one, :stale?
  end

  def test_what_another_process_adopts
    first = source(**@pair.files)
    first.keep(first.read("s" * 32))
    File.delete(@pair.key_path)
    second = source(**@pair.files)
    old, new = second.adopt(Marshal.load(Marshal.dump(first.options)))
    assert_nil old
    assert_equal first.context.certificates, new.certificates
  end

  def test_contexts_are_collected
    reading = read(**@pair.files)
    200.times { Abaca::TLSContext.new(reading.options) }
    GC.start
    left = ObjectSpace.each_object(Abaca::TLSContext).count
    assert_operator left, :<, 100
    assert_raises(NoMethodError) { reading.context.dup }
    assert_raises(RuntimeError) { Abaca::TLSContext.allocate.certificates }
    assert_raises(TypeError) { Abaca::TLSContext.new(identities: [[1, 2, 3, 4]]) }
    assert_raises(ArgumentError) { Abaca::TLSContext.new(**reading.options, ticket_secret: "short") }
  end
end
