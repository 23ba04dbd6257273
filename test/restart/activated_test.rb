# frozen_string_literal: true

require "test_helper"
require "abaca"
require "socket"
require "support/certificates"
require "support/process_case"
require "support/tls_client"
require "support/waits"

# Sockets from systemd, for which the test stands in.
class ActivatedTest < Minitest::Test
  include ProcessCase
  include Waits

  APP = 'run ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }'
  CLOSING = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
  # What follows gets the shell's process, and descriptors 3 and 4.
  AS_SYSTEMD = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"].freeze

  def setup
    super
    @path = "#{@directory}/activated"
    @tcp = TCPServer.new("127.0.0.1", 0)
    @unix = UNIXServer.new(@path)
  end

  def teardown
    [@tcp, @unix].each(&:close)
    super
  end

  def test_all_that_are_there_across_a_restart
    server = start("bind_to_activated_sockets")
    server.wait_for(/Use Ctrl-C/)

    assert_match(%r{^\* Activated tcp://127\.0\.0\.1:#{port} \(web\)$}, server.text)
    assert_match(%r{^\* Activated unix://#{@path} \(local\)$}, server.text)
    refute_match(/Listening on/, server.text)
    assert_both_answer
    server.signal(:USR2)
    server.wait_for(%r{Inherited tcp://127\.0\.0\.1:#{port}\n\* Inherited unix://#{@path}\n.*Use Ctrl-C}m)
    assert_both_answer
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
    assert_path_exists @path # it is systemd's
  end

  def test_one_by_its_url
    other = "#{@directory}/other"
    server = start("bind 'tcp://127.0.0.1:#{port}'\nbind 'unix://#{other}'")
    server.wait_for(/Use Ctrl-C/)

    assert_match(%r{^\* Activated tcp://127\.0\.0\.1:#{port} }, server.text)
    assert_match(%r{^\* Listening on unix://#{other}$}, server.text)
    assert server.wait_for(%r{warning: the activated socket unix://#{@path} is not used})
  end

  # The configuration says of which socket the bytes are TLS; across a restart it is the same one.
  def test_one_with_tls
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    Certificates.new(@directory).make("a", names: ["a.test"])
    ["", "bind_to_activated_sockets", "bind_to_activated_sockets :only"].each do |activation|
      server = start("bind 'ssl://127.0.0.1:#{port}?cert=a.pem&key=a.key'\n#{activation}")
      server.wait_for(/Use Ctrl-C/)
      assert_match(%r{^\* Activated ssl://127\.0\.0\.1:#{port} \(web\)$}, server.text)
      refute_match(/tcp:/, server.text)
      client = TLSClient.new(port)
      @clients << client
      assert_equal "hello", client.call(CLOSING).body
      server.signal(:TERM)
      assert_equal 0, server.wait.exitstatus
    end
  end

  def test_only_those
    server = start("bind_to_activated_sockets :only\nbind 'tcp://127.0.0.1:0'")
    server.wait_for(/Use Ctrl-C/)
    refute_match(/Listening on/, server.text)
  end

  # As under Puma, so that one file serves with systemd and without.
  def test_only_those_where_there_are_none
    server = start("bind_to_activated_sockets 'only'\nbind 'tcp://127.0.0.1:0'", sockets: 0)
    assert_equal "hello", connect(server.port).call(CLOSING).body
  end

  private

  def port = @tcp.addr[1]

  def start(config, sockets: 2)
    File.write("#{@directory}/config.ru", APP)
    File.write("#{@directory}/settings.rb", config)
    start_abaca("-C", "settings.rb", before: AS_SYSTEMD, 3 => @tcp, 4 => @unix,
                                     env: { "LISTEN_FDS" => sockets.to_s, "LISTEN_FDNAMES" => "web:local" })
  end

  def assert_both_answer
    assert_equal "hello", connect(port).call(CLOSING).body
    UNIXSocket.open(@path) do |socket|
      socket.write(CLOSING)
      assert_match(/\r\n\r\nhello\z/, socket.read)
    end
  end
end
