# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/tls_case"

# Certificates that are renewed while the server runs, sessions that are resumed, and clients with certificates.
class TLSRenewalTest < Minitest::Test
  include TLSCase

  def test_reload
    running, port = serve_tls
    old = secure(port)
    assert_equal 200, old.call(GET).status
    renewed = @made.renew(@pair)
    running.server.reload_certificates
    assert_equal renewed.cert.serial, secure(port).certificate.serial
    assert_equal 200, old.call(GET).status, "it keeps what it has"
    File.write(@pair.cert_path, "nonsense")
    assert_match(/a\.pem/, assert_raises(Abaca::ConfigError) { running.server.reload_certificates }.message)
    assert_equal renewed.cert.serial, secure(port).certificate.serial
  end

  # The second one comes after the first has read, and before its listeners have what it has read.
  def test_two_reload_at_once
    running, port = serve_tls
    server = running.server
    second = nil
    server.define_singleton_method(:replace_tls) do |*pair|
      second ||= Thread.new { reload_certificates }.tap { |thread| thread.join(0.5) }
      super(*pair)
    end
    2.times do
      renewed = @made.renew(@pair)
      server.reload_certificates
      second.join
      assert_equal renewed.cert.serial, secure(port).certificate.serial
    end
  end

  # Ruby's library keeps errors in a queue that belongs to the thread, which the native part shares.
  def test_errors_that_the_app_leaves
    _, port = serve_tls do
      begin
        OpenSSL::PKey.read("nonsense")
      rescue OpenSSL::PKey::PKeyError
        OpenSSL::X509::Certificate.new rescue nil # rubocop:disable Style/RescueModifier
      end
      [200, TYPE.dup, ["ok"]]
    end
    client = secure(port)
    20.times { assert_equal "ok", told(client) }
  end

  def session_of(port, **options)
    client = secure(port, **options)
    told(client)
    assert(eventually { told(client) && client.session })
    client.close
    client.session
  end

  def test_sessions
    running, port = serve_tls { |env| [200, TYPE.dup, [env["abaca.tls"].resumed?.inspect]] }
    session = session_of(port)
    again = secure(port, session: session)
    assert_equal [true, "true"], [again.resumed?, told(again)]
    session, another = Array.new(2) { session_of(port) }
    @made.renew(@pair)
    running.server.reload_certificates
    assert_predicate secure(port, session: session), :resumed?, "the keys stay"
    other = listen(running, **@pair.files)
    refute_predicate secure(other, session: another), :resumed?
  end

  # Several hosts, or starts, with one secret.
  def test_a_file_with_the_secret
    path = File.join(@folder, "ticket.key")
    File.binwrite(path, Random.bytes(32))
    ports = Array.new(2) { serve_tls(tls_ticket_key_file: path).last }
    # The listener's name is part of the key: the port that was asked for, and its number.
    assert_predicate secure(ports.last, session: session_of(ports.first)), :resumed?
    File.binwrite(path, Random.bytes(32))
    @running.last.server.reload_certificates
    refute_predicate secure(ports.last, session: session_of(ports.first)), :resumed?
  end

  # --- certificates of clients ---

  def alice = @alice ||= @made.make("alice", subject: "/O=Example/CN=alice")

  def mutual(mode, **options)
    serve_tls(tls: { **@pair.files, ca: @made.authority.cert_path, verify_mode: mode, **options }) do |env|
      certificate = env["puma.peercert"]
      again = env["abaca.tls"].client_certificate
      [200, TYPE.dup, [[certificate&.subject.to_s, certificate.equal?(again), env["abaca.tls"].client_dn].inspect]]
    end.last
  end

  def refused?(port, **options)
    client = secure(port, **options)
    client.call(GET)
    false
  rescue OpenSSL::SSL::SSLError, EOFError, Errno::ECONNRESET
    true
  end

  def test_force_peer
    port = mutual(:force_peer)
    assert_equal ["/O=Example/CN=alice", true, "CN=alice,O=Example"].inspect, told(secure(port, pair: alice))
    assert refused?(port)
    stranger = Certificates.new(Dir.mktmpdir(nil, @folder)).make("alice")
    assert refused?(port, pair: stranger)
    assert refused?(port, pair: @made.make("old", from: -9, days: -1))
  end

  def test_peer
    port = mutual(:peer)
    assert_equal ["", true, nil].inspect, told(secure(port))
    assert_equal ["/O=Example/CN=alice", true, "CN=alice,O=Example"].inspect, told(secure(port, pair: alice))
    assert refused?(port, pair: Certificates.new(Dir.mktmpdir(nil, @folder)).make("alice"))
  end

  # It is built once, and survives what the client does next.
  def test_the_certificate_is_the_same_object
    seen = []
    _, port = serve_tls(tls: { **@pair.files, ca: @made.authority.cert_path, verify_mode: :peer }) do |env|
      seen << env["puma.peercert"]
      [200, TYPE.dup, ["ok"]]
    end
    client = secure(port, pair: alice)
    3.times { told(client) }
    client.close
    assert_equal 1, seen.map(&:object_id).uniq.size
    assert_equal alice.cert.serial, seen.first.serial
  end

  def test_a_resumed_session_has_the_certificate
    port = mutual(:force_peer)
    session = session_of(port, pair: alice)
    again = secure(port, session: session, pair: alice)
    assert_predicate again, :resumed?
    assert_match(/alice/, told(again))
  end

  def test_revoked
    crl = @made.revoke(alice)
    port = mutual(:force_peer, crl: crl)
    assert refused?(port, pair: alice)
    assert_match(/bob/, told(secure(port, pair: @made.make("bob"))))
  end

  def test_none
    port = mutual(:none)
    assert_equal ["", true, nil].inspect, told(secure(port, pair: alice))
  end
end
