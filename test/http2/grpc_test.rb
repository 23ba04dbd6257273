# frozen_string_literal: true

require "test_helper"
require "json"
require "support/framework_case"
require "support/process_case"
require "support/programs"

# A real client of gRPC, with the gems of test/frameworks/grpc, in front of a Rack app that is served by the command.
class GrpcTest < Minitest::Test
  include ProcessCase

  FOLDER = File.join(FrameworkCase::FOLDER, "grpc")
  ANSWERS = {
    "unary" => "HELLO", "large" => 300_000, "server_stream" => %w[0 1 2], "client_stream" => "a,b,c",
    "both" => %w[a a+ a++], "unknown" => ["GRPC::Unimplemented", "no such method"], "late" => "GRPC::DeadlineExceeded",
    "at_once" => Array.new(20) { |nth| "N#{nth}" }
  }.freeze

  def setup
    super
    skip "no compiled gem for this Ruby" if RUBY_VERSION >= "3.5"
  end

  def test_calls_on_fibers = assert_calls("")
  def test_calls_on_threads = assert_calls("mode :thread\nthreads 0, 32\n")

  private

  def assert_calls(config)
    File.write(File.join(@directory, "settings.rb"), "bind 'tcp://127.0.0.1:0?h2c=true'\n#{config}")
    command = start_abaca("-C", "settings.rb", File.join(FOLDER, "config.ru"))
    calls = Programs.words(RbConfig.ruby, File.join(FOLDER, "calls.rb"), command.port.to_s,
                           environment: FrameworkCase.environment(FOLDER))
    out, err, status = Open3.capture3(*calls)
    assert_predicate status, :success?, err
    assert_equal ANSWERS, JSON.parse(out.lines.last)
    # The call that was given up has ended, too.
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end
end
