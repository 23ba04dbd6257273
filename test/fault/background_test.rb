# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/process_case"

# Fibers that an app starts beside its requests must not keep the process from ending.
class FaultBackgroundTest < Minitest::Test
  include ProcessCase

  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  FOR_EVER = "Fiber.schedule { loop { sleep 0.05 } }"
  STUBBORN = "Fiber.schedule { begin; loop { sleep 0.05 }; rescue Abaca::Shutdown; retry; end }"
  BRIEF = "Fiber.schedule { sleep 0.5; $stdout.puts 'brief is done' }"

  def test_one_without_an_end_is_broken_off
    assert_equal 0, stop_with(FOR_EVER).exitstatus
  end

  def test_one_that_ignores_the_exception_is_left_behind
    assert_equal 0, stop_with(STUBBORN).exitstatus
  end

  def test_one_that_ends_is_waited_for
    assert_equal 0, stop_with(BRIEF, patience: 60).exitstatus
    assert_match(/brief is done/, @commands.first.text)
  end

  private

  # Stops a server that was asked once, and whose app starts such a fiber; returns its status. patience: seconds.
  def stop_with(fiber, patience: 1)
    command = run_abaca("run ->(_env) { #{fiber}; [200, {}, ['hi']] }", config: "force_shutdown_after #{patience}")
    assert_equal "hi", connect(command.port).call(GET).body
    command.signal(:TERM)
    command.wait
  end
end
