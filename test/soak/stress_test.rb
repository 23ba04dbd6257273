# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "support/test_build"

# bin/soak --stress in short, in each mode, for what sanitizers see. The server takes over the environment of the test.
class StressTest < Minitest::Test
  %w[fiber thread hybrid guest].each do |mode|
    define_method(:"test_#{mode}") do
      skip "it looks for what sanitizers see" unless TestBuild.sanitized?
      paths = $LOAD_PATH.grep_v(%r{/test\z}).map { |path| "-I#{path}" }
      output, status = Open3.capture2e(RbConfig.ruby, *paths, File.join(__dir__, "run.rb"), "--stress", "--mode", mode,
                                       "--seconds", "15", "--every", "2.5")
      assert_predicate status, :success?, output
    end
  end
end
