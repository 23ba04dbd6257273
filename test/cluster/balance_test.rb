# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"

# Which worker gets a connection.
class ClusterBalanceTest < Minitest::Test
  include ClusterCase

  # /hold keeps a place until there is a file named "go".
  RACKUP = <<~RUBY
    run(lambda do |env|
      sleep 0.01 until env["PATH_INFO"] != "/hold" || File.exist?("go")
      [200, { "content-type" => "text/plain" }, [Process.pid.to_s]]
    end)
  RUBY

  def path(name) = File.join(@directory, name)

  def get(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"

  # They are all full, and answer in turn.
  def test_all_are_full
    command = run_cluster(RACKUP, config: "workers 2\nmax_fibers 1")
    clients = Array.new(6) { connect(command.port).write(get("/hold")) }
    assert(eventually { command.signal(:PWR) && command.text.scan("queued   GET /hold").size >= 4 })
    File.write(path("go"), "")
    clients.each { |client| assert_equal 200, client.read.status }
    assert_equal 0, finish(command)
  end
end
