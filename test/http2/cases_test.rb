# frozen_string_literal: true

require "test_helper"
require "support/http2_cases"
require "support/server_case"

# Plays every case of test/cases/http2.txt over sockets, in each segmentation.
class Http2CasesTest < Minitest::Test
  include ServerCase

  Http2Cases::SEGMENTATIONS.each_key do |segmentation|
    define_method(:"test_every_case_#{segmentation}") do
      port = serve(Http2Cases::APP).server.add_tcp_listener("127.0.0.1", 0, defer_accept: false, h2c: true)
      failures = Http2Cases.all.filter_map { |the| Http2Cases::Play.new(port, the, segmentation).run.failure }
      assert_empty failures
    end
  end
end
