# frozen_string_literal: true

require "test_helper"
require "support/front_case"

# Behind proxies that speak HTTP/2 with the server, without TLS, while its workers are replaced.
class ProxiesHttp2Test < Minitest::Test
  include FrontCase

  # With `proto h2`, as docs/http2.md has it; health checks and the PROXY protocol as ever.
  class HAProxy < Front::HAProxy
    private

    def servers_of_example = super.transform_values { |server| "#{server} proto h2 ws h2" }
  end

  # Debian's nginx speaks HTTP/2 with servers by grpc_pass only.
  class Nginx < Front::Nginx
    private

    def example(name, changes)
      super(name, { "proxy_pass http://abaca" => "grpc_pass grpc://abaca", **changes })
    end
  end

  def test_haproxy
    command = serve("#{WORKERS}readiness '/readyz'\n", terms: "?proxy_protocol=v2&h2c=true")
    wait_for_workers(command, 2)
    front = front(HAProxy, command.port, command.port)
    assert_equal CLIENT, remote_address(front)
    load_without_error(front) { restart(command, 1) }
    assert_equal 0, finish(command)
  end

  def test_nginx
    command = serve(WORKERS, terms: "?h2c=true")
    wait_for_workers(command, 2)
    front = front(Nginx, command.port)
    load_without_error(front) { restart(command, 1) }
    assert_equal 0, finish(command)
  end
end
