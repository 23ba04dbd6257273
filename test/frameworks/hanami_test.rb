# frozen_string_literal: true

require "test_helper"
require "support/framework_case"
require "support/parcels"

# Hanami, served by the command.
class HanamiTest < Minitest::Test
  include FrameworkCase
  include Parcels

  application "hanami"

  def test_file
    assert_equal File.binread("#{FOLDER}/hanami/app/actions/file.rb"), get("/file").body
  end

  def test_error
    response = get("/boom")
    assert_equal "500", response.code
    refute_includes response.body, "secret"
  end

  private

  def parcel = ["application/octet-stream; charset=utf-8", "parcel 7 for Ada"]
end
