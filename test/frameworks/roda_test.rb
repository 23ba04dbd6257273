# frozen_string_literal: true

require "test_helper"
require "support/framework_case"

# Roda, served by the command.
class RodaTest < Minitest::Test
  include FrameworkCase

  application "roda"

  def test_json
    response = get("/parcels/7?to=Ada")
    assert_equal ["application/json", '{"id":7,"to":"Ada"}'], [response["content-type"], response.body]
    assert_equal "404", get("/nothing").code
  end

  def test_upload
    response = upload("/parcels", to: "Ada", content: "x" * 300_000)
    assert_equal ["201", "Ada label.txt 300000"], [response.code, response.body]
  end

  def test_public_file
    source = File.binread("#{FOLDER}/roda/config.ru")
    assert_equal source, get("/config.ru").body
    part = get("/config.ru", Range: "bytes=2-9")
    assert_equal ["206", source[2..9]], [part.code, part.body]
  end

  def test_error
    response = get("/boom")
    assert_equal ["500", "failed: RuntimeError"], [response.code, response.body]
  end

  def test_stream
    stream = assert_events_one_by_one(%w[first second third])
    assert_usable(stream, "/parcels/1")
  end
end
