# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/certificates"
require "support/cluster_case"
require "support/http2_client"
require "support/test_build"
require "support/tls_client"

# Many clients with TLS, as the command serves them: what those cost that are silent, and restarts while others ask.
class TLSLoadTest < Minitest::Test
  include ClusterCase
  include Waits

  PLACE = "bind 'ssl://127.0.0.1:0?cert=a.pem&key=a.key'\n"
  # Half of what they announce, behind a handshake.
  HALF_A_RECORD = "\x17\x03\x03\x00\x40abcdefgh".b.freeze

  def setup
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    super
    Certificates.new(@directory).make("a", names: ["a.test"])
    File.write(File.join(@directory, "config.ru"), APP)
  end

  # --- the silent ones ---

  # What a server without a client takes meanwhile is allowed.
  def test_half_a_record_and_half_a_handshake_take_no_time
    command = run_tls("tls_handshake_timeout 30\n")
    10.times { secure(command).socket.io.write(HALF_A_RECORD) }
    10.times { connect(command.port).write("\x16\x03\x01\x01\x00abc") }
    secure(command).call(GET)
    nothing_for(0.2)
    before = command.processor_time
    nothing_for(1.5)
    assert_operator command.processor_time - before, :<, 0.1
    assert_equal 200, secure(command).call(GET).status
  end

  def test_half_a_handshake_ends
    command = run_tls("tls_handshake_timeout 1\n")
    client = connect(command.port).write("\x16\x03\x01\x01\x00abc")
    assert_nil client.read_some
  end

  # Bytes for each connection: OpenSSL has 14 KB, HTTP/2 some 20 more.
  def test_memory_of_idle_connections
    skip "a sanitizer has memory of its own" if TestBuild.sanitized?
    command = run_tls
    many = 300
    ask_and_stay = ->(**options) { Array.new(many) { secure(command, **options).tap { |one| one.call(GET) } } }
    20.times { secure(command).call(GET) }
    before = command.resident
    ask_and_stay.call
    assert_operator (command.resident - before) / many, :<, 32 << 10
    before = command.resident
    many.times { http2(command) }
    assert_operator (command.resident - before) / many, :<, 64 << 10
  end

  # --- restarts ---

  def test_phased_restarts
    command = run_tls("workers 2\npreload_app! false\n")
    wait_for_workers(command, 2)
    load = Load.new(command.port, kind: TLSClient)
    assert load.more?(50)
    2.times do |nth|
      command.signal(:USR1)
      assert eventually { running(command).map(&:phase) == [nth + 1] * 2 }, command.text
    end
    assert load.more?(50)
    assert_empty load.stop
    assert_equal 0, finish(command)
  ensure
    load&.stop
  end

  private

  def run_tls(config = "")
    File.write(File.join(@directory, "settings.rb"), PLACE + config)
    start_abaca("-C", "settings.rb", "config.ru")
  end

  def secure(command, **options) = TLSClient.new(command.port, **options).tap { |client| @clients << client }

  # One that has had an answer.
  def http2(command)
    through = ->(socket) { TLSClient::Secure.over(socket, alpn: ["h2"]) }
    client = Http2Client.new(command.port, through: through).tap { |one| @clients << one }
    client.send_words("headers 1 es,eh :get")
    client.read_until { client.complete?(1) }
  end
end
