# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"

# The command in mode :thread: its end, and its words.
class ThreadsProcessTest < Minitest::Test
  include ProcessCase

  GET = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"
  CONFIG = "mode :thread\nthreads 0, 4\n"

  def test_exit_in_a_request
    command = run_abaca("run ->(_env) { exit 3 }", config: CONFIG)
    connect(command.port).write(format(GET, "/"))
    assert_equal 3, command.wait.exitstatus
  end

  def test_a_stop_waits_for_requests
    command = run_abaca(<<~RUBY, config: CONFIG)
      run(lambda do |_env|
        warn "begun"
        sleep 0.01 until File.exist?("go")
        [200, {}, [ENV.fetch("RACK_ENV")]]
      end)
    RUBY
    client = connect(command.port).write(format(GET, "/"))
    command.wait_for(/begun/)
    command.signal(:TERM)
    command.wait_for(/Gracefully stopping/)
    File.write(File.join(@directory, "go"), "")
    assert_equal "development", client.read.body
    assert_equal 0, command.wait.exitstatus
    assert_match(/^\*      Threads: 0 to 4$/, command.text)
    refute_match(/Max fibers/, command.text)
  end
end
