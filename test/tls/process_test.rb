# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"
require "support/certificates"
require "support/process_case"
require "support/programs"
require "support/tls_client"

# The command with TLS: boots and their faults, signals, workers, restarts, and certificates of development.
class TLSProcessTest < Minitest::Test
  include ProcessCase

  APP = <<~RUBY
    run(lambda do |env|
      tls = env["abaca.tls"]
      [200, { "content-type" => "text/plain" }, ["\#{env["rack.url_scheme"]} \#{tls&.resumed?} \#{Process.pid}"]]
    end)
  RUBY
  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  LISTENING = %r{(?:Listening on|Inherited|Activated) (?:https|ssl)://[^\s]*:(\d+)}

  def setup
    super
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    @made = Certificates.new(@directory)
    @pair = @made.make("a", names: ["a.test"])
  end

  # Runs the command with a configuration; its places are all that it listens at.
  def run_tls(config, *arguments, app: APP, **options)
    File.write(File.join(@directory, "settings.rb"), config)
    File.write(File.join(@directory, "config.ru"), app)
    start_abaca("-C", "settings.rb", *arguments, "config.ru", **options)
  end

  def port_of(command) = Integer(command.wait_for(LISTENING)[1])

  def client(port, **options)
    TLSClient.new(port, ca: @made.authority.cert, **options).tap { |one| @clients << one }
  end

  def serial(port) = client(port).then { |one| one.certificate.serial.to_i.tap { one.close } }

  def answer(port, **options) = client(port, **options).then { |one| one.call(GET).body.tap { one.close } }

  def renewed?(port, pair) = Waits.eventually { serial(port) == pair.cert.serial.to_i }

  ONE = "bind 'ssl://127.0.0.1:0?cert=a.pem&key=a.key'\n"

  def test_hup_reads_anew
    command = run_tls(ONE)
    port = port_of(command)
    command.wait_for(/Use Ctrl-C/)
    assert_match(/\Ahttps false/, answer(port))
    renewed = @made.renew(@pair)
    command.signal(:HUP)
    assert renewed?(port, renewed)
    command.wait_for(/^\* Certificates reloaded: a\.test$/)
    File.write(@pair.key_path, "nonsense")
    command.signal(:HUP)
    command.wait_for(/the certificates stay as they are: settings\.rb:1: ssl:.*a\.pem|a\.key/)
    assert_equal renewed.cert.serial.to_i, serial(port)
    command.signal(:TERM)
    assert_predicate command.wait, :success?
  end

  # The workers cannot read the key: the master gives it to them.
  def test_workers
    command = run_tls("workers 2\n#{ONE}before_worker_boot { File.chmod(0, 'a.key') }\n" \
                      "activate_control_app 'unix://#{@directory}/c.sock', no_token: true\nstate_path 'state'")
    port = port_of(command)
    2.times { |i| command.wait_for(/Worker #{i} .*booted/) }
    renewed = @made.renew(@pair)
    assert_match(/sent success/, control("reload-certificates"))
    assert renewed?(port, renewed)
    assert(Waits.eventually { 10.times.all? { serial(port) == renewed.cert.serial.to_i } })
    session = nil
    one = client(port)
    pid = one.call(GET).body[/\d+\z/]
    assert(Waits.eventually { one.call(GET) && session = one.session })
    one.close
    others = Array.new(30) { answer(port, session: session) }
    assert(others.all?(/\Ahttps true/), others.inspect)
    assert_operator [pid, *others.map { |text| text[/\d+\z/] }].uniq.size, :>, 1, "the other worker takes them too"
    Process.kill(:KILL, Integer(pid))
    command.wait_for(/booted.*booted.*booted/m)
    assert_equal renewed.cert.serial.to_i, serial(port)
    File.write(@pair.cert_path, "nonsense")
    assert_match(/Command error: .*a\.pem/, control("reload-certificates"))
  end

  def control(command)
    words = [RbConfig.ruby, File.expand_path("../../exe/abacactl", __dir__), "-S", "#{@directory}/state", command]
    Open3.capture2e(*Programs.words(*words, environment: { "HOME" => @directory })).first
  end

  def test_figures
    command = run_tls("#{ONE}activate_control_app 'unix://#{@directory}/c.sock', no_token: true\nstate_path 'state'")
    port_of(command)
    command.wait_for(/Use Ctrl-C/)
    figures = JSON.parse(control("stats").lines.last).dig("abaca", "certificates")
    assert_equal [["a.test"], 89], [figures.first["names"], figures.first["days"]]
  end

  def test_a_hot_restart_keeps_the_listener
    command = run_tls(ONE)
    port = port_of(command)
    command.wait_for(/Use Ctrl-C/)
    renewed = @made.renew(@pair)
    command.signal(:USR2)
    command.wait_for(/Inherited ssl:.*Use Ctrl-C/m)
    assert renewed?(port, renewed)
    own = / #{command.pid}\z/
    assert(Waits.eventually { answer(port).match?(own) }, "the stand-in ends")
  end

  def test_faults_at_boot
    expired = @made.make("old", names: ["a.test"], from: -9, days: -1)
    @made.make("locked", names: ["a.test"], password: "secret")
    {
      "bind 'ssl://127.0.0.1:0?cert=no.pem&key=a.key'" =>
        "settings.rb:1: ssl://127.0.0.1:0: certificate no.pem: No such file or directory",
      "\nssl_bind '127.0.0.1', 0, cert: 'a.pem', key: '#{expired.key_path}'" =>
        %r{\Asettings.rb:2: ssl://127.0.0.1:0: .*a\.pem},
      "\nssl_bind '127.0.0.1', 0, cert: '#{expired.cert_path}', key: '#{expired.key_path}'" =>
        /settings.rb:2: .*old\.pem.*expired/,
      "ssl_bind '127.0.0.1', 0, cert: 'locked.pem', key: 'locked.key'" => /settings.rb:1: .*locked/,
      "ssl_bind '127.0.0.1', 0, cert: 'locked.pem', key: 'locked.key', key_password_command: 'exit 9'" =>
        /settings.rb:1: .*key_password_command "exit 9" has failed \(exit 9\)/,
      "bind 'ssl://127.0.0.1:0'\n\ncertificate cert: 'no.pem', key: 'a.key'" =>
        "settings.rb:3: certificate no.pem: No such file or directory",
      "bind 'ssl://127.0.0.1:0'\nenvironment 'production'" =>
        "settings.rb:1: ssl://127.0.0.1:0: a certificate is needed: cert= and key=",
      "#{ONE}tls_ticket_key_file 'config.ru.none'" =>
        "settings.rb:2: tls_ticket_key_file config.ru.none: No such file or directory"
    }.each do |config, message|
      [[], ["--check-config"]].each do |words|
        command = run_tls(config, *words)
        refute_predicate command.wait, :success?
        said = command.text[/abaca: (settings\.rb:.*)$/, 1] # within other lines, which have another descriptor
        assert_operator message, :===, said, [config, command.text].inspect
      end
    end
  end

  def test_check_config_with_good_ones
    command = run_tls("#{ONE}bind 'tcp://127.0.0.1:0', redirect: :https", "--check-config")
    assert_predicate command.wait, :success?
    assert_match(/^certificate a\.pem: a\.test; .*256; until \d{4}-.* UTC$/, command.text)
    assert_match(%r{^binds +ssl://127.0.0.1:0, tcp://127.0.0.1:0 +settings.rb:1, settings.rb:2$}, command.text)
  end

  # Nobody else has loaded Ruby's library there.
  def test_certificates_of_clients
    mine = @made.make("alice", subject: "/O=Example/CN=alice")
    app = "run ->(env) { [200, {}, [env['puma.peercert'].subject.to_s, env['abaca.tls'].client_dn]] }"
    [0, 1].each do |workers|
      command = run_tls("workers #{workers}\n#{ONE.sub("'\n", "&ca=ca.pem&verify_mode=force_peer'\n")}", app: app)
      assert_equal "/O=Example/CN=aliceCN=alice,O=Example", answer(port_of(command), pair: mine)
    end
  end

  # --- development ---

  # Where the gem keeps what it has made: its keys are large, so all tests have the same.
  def self.state
    @state ||= Dir.mktmpdir("abaca").tap do |folder|
      Minitest.after_run { FileUtils.rm_rf(folder) }
      script = "require 'localhost'; Localhost::Authority.fetch('localhost')"
      system(*Programs.words(RbConfig.ruby, "-e", script, environment: { "XDG_STATE_HOME" => folder }), exception: true)
    end
  end

  def development(config, *words)
    run_tls(config, *words, env: { "XDG_STATE_HOME" => self.class.state, "RACK_ENV" => "development" })
  end

  def assert_served_with_localhost(command)
    port = port_of(command)
    one = TLSClient.new(port, host: "localhost")
    @clients << one
    assert_equal [200, "/O=localhost.rb/CN=localhost"],
                 [one.call(GET).status, one.certificate.subject.to_s]
  end

  def test_dev_tls
    assert_served_with_localhost(development("", "--dev-tls", "-b", "tcp://127.0.0.1:0"))
  end

  def test_dev_tls_with_workers_from_the_file
    assert_served_with_localhost(development("dev_tls\nworkers 2\nport 0, '127.0.0.1'"))
  end

  def test_a_place_without_a_certificate
    assert_served_with_localhost(development("", "-b", "ssl://127.0.0.1:0"))
  end
end
