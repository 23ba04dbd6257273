# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/framework_case"
require "support/parcels"

# Roda, served by the command.
class RodaTest < Minitest::Test
  include FrameworkCase
  include Parcels

  application "roda"

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

  private

  def parcel = ["application/json", '{"id":7,"to":"Ada"}']
end
