# frozen_string_literal: true

require "test_helper"
require "digest"
require "json"
require "support/cable"
require "support/framework_case"

# A Rails API application, served by the command.
class RailsTest < Minitest::Test
  include FrameworkCase

  application "rails"

  def test_json_and_its_etag
    response = get("/parcels")
    assert_equal [{ "id" => 1, "to" => "Ada" }, { "id" => 2, "to" => "Grace" }], JSON.parse(response.body)
    again = get("/parcels", "If-None-Match": response["etag"])
    assert_equal ["304", nil], [again.code, again.body]
    assert_equal "404", get("/nothing").code
  end

  def test_upload
    content = Random.new(11).bytes(400_000)
    response = upload("/parcels", to: "Ada", content:)
    assert_equal "201", response.code
    expected = { "to" => "Ada", "name" => "label.txt", "type" => "text/x-label", "size" => content.bytesize,
                 "digest" => Digest::SHA256.hexdigest(content) }
    assert_equal expected, JSON.parse(response.body)
    assert_equal "400", post("/parcels").code
  end

  def test_file
    response = get("/file")
    assert_equal File.binread("#{FOLDER}/rails/config.ru"), response.body
    assert_equal response.body.bytesize.to_s, response["content-length"]
  end

  def test_error
    response = get("/boom")
    assert_equal "500", response.code
    refute_includes response.body.to_s, "secret"
  end

  # Rails rescues every exception, the server's own as well, and would answer 500.
  def test_what_the_server_breaks_off_is_answered_as_the_server_answers
    assert_equal "504", get("/late").code
    assert_equal "503", get("/boom?kind=Abaca::Shutdown").code
  end

  # Two requests wait in the app at the same time, on fibers of one thread: CurrentAttributes are each one's own.
  def test_current_attributes_of_requests_that_meet
    asked = %w[Ada Grace].map { |name| Thread.new { get("/meeting/#{name}").body } }
    assert_equal "204", post("/meeting").code
    assert_equal %w[Ada Grace], asked.map(&:value)
  end

  # ActionController::Live runs the action on a thread, with what its own request has set outside of the action.
  def test_current_attributes_of_streams_that_meet
    asked = %w[Ada Grace].map { |name| Thread.new { get("/stream", "X-Visitor": name).body } }
    assert_equal "204", post("/meeting").code
    assert_equal %w[Ada Grace], asked.map(&:value)
  end

  def test_server_sent_events
    stream = open_stream("/events")
    3.times do |nth|
      assert_equal "204", post("/events").code
      bytes = read_until(stream, "{\"number\":#{nth + 1}}")
      refute_includes bytes, "{\"number\":#{nth + 2}}"
      assert_match(%r{^content-type: text/event-stream}i, bytes) if nth.zero?
    end
    post("/events?word=end")
    assert_includes read_until(stream, "0\r\n\r\n"), "0\r\n\r\n"
    assert_equal "true", get("/events/ended").body
    assert_usable(stream, "/parcels")
  end

  # Action Cable takes the connection over, and reads and writes it on a thread of its own.
  def test_action_cable
    cables = Array.new(2) { Cable.new(open_stream("/cable", Cable::UPGRADE), "Parcels::NewsChannel") }
    cables.each do |cable|
      assert_match(%r{\AHTTP/1\.1 101 .*^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$}m, cable.head)
      assert_equal "welcome", cable.receive["type"]
      cable.send("subscribe")
      assert_equal "confirm_subscription", cable.receive["type"]
    end
    cables.first.send("message", data: JSON.generate(action: "tell", text: "good news"))
    cables.each { |cable| assert_equal({ "text" => "GOOD NEWS" }, cable.receive["message"]) }
  end

  def test_a_client_that_leaves_ends_its_events
    stream = open_stream("/events")
    post("/events")
    read_until(stream, "\"number\":1}")
    stream.reset
    # The thread that writes them learns of it at one of its next events.
    ended = false
    allowing = Thread.new { post("/events") && sleep(0.05) until ended }
    assert_equal "true", get("/events/ended").body
  ensure
    ended = true
    allowing&.join
    post("/events?word=forget") # what was allowed after the end would be for another test's stream
  end
end
