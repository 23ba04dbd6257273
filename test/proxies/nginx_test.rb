# frozen_string_literal: true

require "test_helper"
require "support/front_case"

# Behind nginx, as docs/examples/nginx.conf has it.
class NginxTest < Minitest::Test
  include FrontCase

  def test_restarts
    command = serve("#{WORKERS}trusted_proxies :loopback\n")
    wait_for_workers(command, 2)
    front = front(Front::Nginx, command.port)
    assert_equal CLIENT, remote_address(front)
    load_without_error(front) { restart(command, 1) }
    assert_equal 0, finish(command)
  end
end
