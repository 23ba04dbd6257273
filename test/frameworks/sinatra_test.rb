# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/framework_case"
require "support/parcels"

# Sinatra, served by the command.
class SinatraTest < Minitest::Test
  include FrameworkCase
  include Parcels

  application "sinatra"

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

  def test_stream_that_is_kept_open
    stream = open_stream("/kept")
    read_until(stream, "data: open")
    post("/events", "the last")
    assert_includes read_until(stream, "0\r\n\r\n"), "data: the last\n\n"
  end

  private

  def parcel = ["text/html;charset=utf-8", "parcel 7 for Ada"]
end
