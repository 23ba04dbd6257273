# frozen_string_literal: true

require "test_helper"
require "support/framework_case"

# Hanami, served by the command.
class HanamiTest < Minitest::Test
  include FrameworkCase

  application "hanami"

  def test_parameters
    assert_equal "parcel 7 for Ada", get("/parcels/7?to=Ada").body
    assert_equal "404", get("/nothing").code
  end

  def test_upload
    response = upload("/parcels", to: "Ada", content: "x" * 300_000)
    assert_equal ["201", "Ada label.txt 300000"], [response.code, response.body]
  end

  def test_file
    assert_equal File.binread("#{FOLDER}/hanami/app/actions/file.rb"), get("/file").body
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
end
