# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/pool_case"
require "active_record"

# Active Record, where requests want more connections than its pool has.
class ActiveRecordPoolsTest < Minitest::Test
  include PoolCase

  # For no database.
  class Adapter < ActiveRecord::ConnectionAdapters::AbstractAdapter
    ADAPTER_NAME = "nothing"

    def active? = true
  end

  # The models that use it.
  class Record < ActiveRecord::Base
    self.abstract_class = true
  end

  def setup
    super
    @isolation = ActiveSupport::IsolatedExecutionState.isolation_level
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::ConnectionAdapters.register("nothing", Adapter.name, __FILE__)
    Record.establish_connection(adapter: "nothing", pool: 2, checkout_timeout: 20, reaping_frequency: nil)
  end

  def teardown
    super
    Record.remove_connection
    ActiveSupport::IsolatedExecutionState.isolation_level = @isolation
  end

  def with_connection(&block) = Record.connection_pool.with_connection { block.call }

  def waiting_in_pool = Record.connection_pool.num_waiting_in_queue
end
