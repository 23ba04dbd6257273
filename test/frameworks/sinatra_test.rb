# frozen_string_literal: true

require "test_helper"
require "support/framework_case"

# Sinatra, served by the command.
class SinatraTest < Minitest::Test
  include FrameworkCase

  application "sinatra"

  def test_parameters
    assert_equal "parcel 7 for Ada", get("/parcels/7?to=Ada").body
    assert_equal "404", get("/nothing").code
  end

  def test_upload
    response = upload("/parcels", to: "Ada", content: "x" * 300_000)
    assert_equal ["201", "Ada label.txt 300000"], [response.code, response.body]
  end

  def test_file_and_a_part_of_it
    source = File.binread("#{FOLDER}/sinatra/config.ru")
    assert_equal source, get("/file").body
    part = get("/file", Range: "bytes=2-9")
    assert_equal ["206", source[2..9]], [part.code, part.body]
  end

  def test_error
    response = get("/boom")
    assert_equal "500", response.code
    refute_includes response.body, "secret"
  end

  def test_stream
    stream = assert_events_one_by_one(%w[first second third])
    assert_usable(stream, "/parcels/1")
  end

  def test_stream_that_is_kept_open
    stream = open_stream("/kept")
    read_until(stream, "data: open")
    post("/events", "the last")
    assert_includes read_until(stream, "0\r\n\r\n"), "data: the last\n\n"
  end
end
