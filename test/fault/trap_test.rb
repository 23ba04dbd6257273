# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"

# Trap handlers of the app: the loop's thread runs them, often before it can say that it has Ruby's lock back.
class FaultTrapTest < Minitest::Test
  include ProcessCase

  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  HANDLERS = 4

  # It computes for longer than the standby lets others wait. A child of a request's brings a thread that waits, too.
  def test_a_handler_that_computes_comes_to_its_end
    command = run_abaca(<<~RUBY)
      trap("WINCH") do
        count = 0
        count += 1 while count < 3_000_000
        $stdout.write("handled\\n")
      end
      run ->(_env) { [200, { "content-type" => "text/plain" }, [`echo child`]] }
    RUBY
    client = connect(command.port)
    1.upto(HANDLERS) do |nth|
      3.times { assert_equal "child\n", client.call(GET).body }
      command.signal(:WINCH)
      command.wait_for(/(handled\n.*){#{nth}}/m)
    end
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end
end
