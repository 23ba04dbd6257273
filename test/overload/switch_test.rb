# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"

# At the switch from a request's fiber to its loop Ruby may give its lock to another thread, which keeps it
# for as long as it likes. The others are stood in for then as well.
class OverloadSwitchTest < Minitest::Test
  include ServerCase

  def test_others_go_on_while_a_loop_is_held_up_at_the_switch
    needs_scheduler
    skip "a foreign loop has no other to stand in for it" if MODE.key?(:fiber_scheduler)
    hold = false
    held = Queue.new
    gate = Queue.new
    running = serve(stall_after: 0.02) do |env|
      hold = true if env["PATH_INFO"] == "/last"
      HELLO.call(env)
    end
    ask(running) # the thread runs
    trace = TracePoint.new(:fiber_switch) do
      next unless hold && Thread.current == running.thread

      hold = false
      held << true
      gate.pop
    end
    trace.enable
    assert_equal 200, ask(running, request("GET", "/last")).status
    held.pop
    assert_equal 200, ask(running).status
  ensure
    gate&.push(true)
    trace&.disable
  end
end
