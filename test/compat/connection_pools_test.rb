# frozen_string_literal: true

require "test_helper"
require "support/pool_case"
require "connection_pool"

# The gem connection_pool, where requests want more than a pool has.
class ConnectionPoolsTest < Minitest::Test
  include PoolCase

  def pool = @pool ||= ConnectionPool.new(size: 2, timeout: 20) { Object.new }

  def with_connection(&block) = pool.with(&block)

  def waiting_in_pool = inside(pool.instance_variable_get(:@available))

  def app
    pages = super
    ->(env) { env["PATH_INFO"] == "/short" ? respond(ask_shortly) : pages.call(env) }
  end

  # Who has little time would rather go without than wait in line.
  def test_a_short_time_is_kept
    running = serve(app)
    clients = ask_all(running, "/page")
    assert eventually { @started.size + running.server.stats[:held] == REQUESTS }
    assert_equal "without", ask(running, "/short").read.body
    finish(clients)
  end

  private

  def ask_shortly
    pool.with(timeout: 0.01) { "with" }
  rescue ConnectionPool::TimeoutError
    "without"
  end
end
