# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Several servers in a process: what one remembers of the loops of others must not outlive them. Under AddressSanitizer
# (rake sanitized) it is found out.
class FaultServersTest < Minitest::Test
  include ServerCase

  GARBAGE = 200_000 # objects, so that a collection takes as long as what counts as a stall
  PATIENCE = { stall_after: 5, stall_report: 0 }.freeze # milliseconds

  def computing(seconds = 0.02)
    lambda do |_env|
      yield if block_given?
      stop = Waits.now + seconds
      nil while Waits.now < stop
      [200, TYPE.dup, ["x"]]
    end
  end

  # In a thread of its own, whose stack keeps nothing of it.
  def serve_and_forget
    server = Abaca::Server.new(computing { GC.start }, log: Abaca::Log.new(StringIO.new), **PATIENCE)
    port = server.add_tcp_listener("127.0.0.1", 0, defer_accept: false)
    thread = Thread.new { server.run }
    client = Wire::Client.new(port)
    3.times { assert_equal 200, client.call(GET).status }
    client.close
    server.stop
    assert thread.join(20)
    server.log.release
    nil
  end

  def test_a_loop_that_was_excused_ends_with_its_server
    garbage = Array.new(GARBAGE) { [] }
    last = serve(computing, lint: false, **PATIENCE)
    5.times do
      Thread.new { serve_and_forget }.join
      GC.start
      2.times { assert_equal 200, ask(last).status }
    end
    assert_equal GARBAGE, garbage.size
  end
end
