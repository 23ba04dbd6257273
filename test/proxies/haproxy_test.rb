# frozen_string_literal: true

require "test_helper"
require "support/front_case"

# Behind HAProxy, as docs/examples/haproxy.cfg has it: with the PROXY protocol, health checks, and two servers.
class HAProxyTest < Minitest::Test
  include FrontCase

  TERMS = "?proxy_protocol=v2"
  HEALTH = "readiness '/readyz'\nshutdown_delay 3\n"

  def test_restarts
    command = serve("#{WORKERS}#{HEALTH}", terms: TERMS)
    wait_for_workers(command, 2)
    front = front(Front::HAProxy, command.port, command.port)
    assert_equal CLIENT, remote_address(front)
    load_without_error(front) { restart(command, 1) }
    assert_equal 0, finish(command)
  end

  # The health check hears of the stop before the listeners close.
  def test_a_server_that_stops
    servers = Array.new(2) { serve(HEALTH, terms: TERMS) }
    front = front(Front::HAProxy, *servers.map(&:port))
    load_without_error(front) do
      servers.first.signal(:TERM)
      assert_equal 0, servers.first.wait.exitstatus
    end
    assert eventually { front.text.include?("abaca/app1 is DOWN") }, front.text
  end
end
