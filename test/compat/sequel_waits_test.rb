# frozen_string_literal: true

require "test_helper"
require "support/pool_case"
require "sequel"

# Sequel, where requests want more connections than its pool has.
class SequelWaitsTest < Minitest::Test
  include PoolCase

  # A driver for no database.
  class Database < Sequel::Database
    def connect(_server) = Object.new
    def disconnect_connection(_session) = nil
  end

  # One that is made before the server is has been adapted by the time that it runs.
  def database = @database ||= Database.new(max_connections: 2, pool_timeout: 20, keep_reference: true)

  def teardown
    super
    Sequel::DATABASES.delete(@database)
  end

  def serve(...)
    database
    super
  end

  def with_connection(&block) = database.synchronize { block.call }

  def waiting_in_pool = inside(database.pool)

  def test_a_frozen_one
    serve(app)
    frozen = Database.new(max_connections: 2, keep_reference: false).freeze
    assert_equal 1, frozen.synchronize { 1 }
  end
end
