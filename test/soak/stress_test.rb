# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# bin/soak --stress in short, in each mode. test/sanitized.rb runs it, with the load path and environment of the
# sanitized build, which the server takes over.
class SanitizedStress < Minitest::Test
  %w[fiber thread hybrid guest].each do |mode|
    define_method(:"test_#{mode}") do
      paths = $LOAD_PATH.grep_v(%r{/test\z}).map { |path| "-I#{path}" }
      output, status = Open3.capture2e(RbConfig.ruby, *paths, File.join(__dir__, "run.rb"), "--stress", "--mode", mode,
                                       "--seconds", "15", "--every", "2.5")
      assert_predicate status, :success?, output
    end
  end
end
