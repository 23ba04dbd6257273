# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"

# A server in a Ruby that does not know the names that only Linux has: what it does needs none of them.
class ConstantsTest < Minitest::Test
  include ClusterCase

  FIRST = "-r#{File.expand_path('without_linux', __dir__)}".freeze
  NAMELESS = { "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), FIRST].join(" ") }.freeze
  APP = <<~'RUBY'
    run(lambda do |env|
      body = env["rack.input"].read
      env["rack.input"].rewind
      known = defined?(File::TMPFILE) || defined?(Socket::SO_PEERCRED)
      [200, { "content-type" => "text/plain" }, ["#{Process.pid} #{known.inspect} #{body == env["rack.input"].read}"]]
    end)
  RUBY
  CONFIG = <<~RUBY
    workers 2
    rewindable_input
    max_body_memory 1000
    activate_control_app "auto"
    state_path "state"
    dashboard true
  RUBY

  def upload(command)
    bytes = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n#{'x' * 100_000}"
    connect(command.port).call(bytes).body.split
  end

  def test_a_cluster_from_its_boot_over_a_restart_to_its_end
    command = run_cluster(APP, config: CONFIG, env: NAMELESS)
    assert_equal %w[nil true], upload(command).drop(1)
    first = booted(command).map(&:pid)
    command.signal(:USR2)
    wait_for_workers(command, 6) # those of the stand-in are in between
    assert(eventually { running(command).size == 2 && !running(command).map(&:pid).intersect?(first) })
    assert_equal %w[nil true], upload(command).drop(1)
    assert_equal 0, finish(command)
    refute_match(/NameError|uninitialized/, command.text)
  end
end
