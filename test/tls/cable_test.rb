# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/cable"
require "support/certificates"
require "support/framework_case"
require "support/tls_client"

# Action Cable, which is the gem websocket-driver on a connection that it has taken over, through TLS.
class TLSCableTest < Minitest::Test
  FOLDER = File.join(FrameworkCase::FOLDER, "rails")

  def setup
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    super
    @folder = Dir.mktmpdir("abaca")
    pair = Certificates.new(@folder).make("a", names: ["a.test"])
    words = Command.words(["-b", "ssl://127.0.0.1:0?cert=#{pair.cert_path}&key=#{pair.key_path}", "config.ru"])
    @server = Command::Running.new(words, dir: FOLDER, env: FrameworkCase.environment(FOLDER))
    @server.port
    @reader = Thread.new { @server.read_on }
  end

  def teardown
    @clients&.each(&:close)
    @server&.destroy
    @reader&.join
    FileUtils.rm_rf(@folder) if @folder
    super
  end

  def test_action_cable
    @clients = Array.new(2) { TLSClient.new(@server.port) }
    cables = @clients.map { |client| subscribe(client) }
    cables.first.send("message", data: JSON.generate(action: "tell", text: "good news"))
    cables.each { |cable| assert_equal({ "text" => "GOOD NEWS" }, cable.receive["message"]) }
  end

  private

  def subscribe(client)
    client.write("GET /cable HTTP/1.1\r\nHost: a.test\r\n#{Cable::UPGRADE}\r\n")
    cable = Cable.new(client, "Parcels::NewsChannel")
    assert_match(%r{\AHTTP/1\.1 101 .*^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$}m, cable.head)
    assert_equal "welcome", cable.receive["type"]
    cable.send("subscribe")
    assert_equal "confirm_subscription", cable.receive["type"]
    cable
  end
end
