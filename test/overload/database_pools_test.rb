# frozen_string_literal: true

require "test_helper"
require "abaca/database_pools"

# What is said at boot when Active Record has fewer connections than there may be requests.
class OverloadDatabasePoolsTest < Minitest::Test
  Configuration = Struct.new(:name, :pool)
  # The name of the setting since Rails 8.1.
  NewConfiguration = Struct.new(:name, :max_connections)

  # A root with a stand-in for Active Record, and with one for Rails.
  def root(configurations, env: nil)
    wanted = nil
    list = Object.new
    list.define_singleton_method(:configs_for) do |env_name:|
      wanted = env_name
      raise configurations if configurations.is_a?(Exception)

      configurations
    end
    base = Class.new { define_singleton_method(:configurations) { list } }
    Module.new.tap do |made|
      made.const_set(:ActiveRecord, Module.new { const_set(:Base, base) })
      made.const_set(:Rails, Module.new { define_singleton_method(:env) { env } }) if env
      made.define_singleton_method(:wanted) { wanted }
    end
  end

  def said(requests, root) = Abaca::DatabasePools.smaller_than(requests, root: root)

  def test_without_active_record
    assert_empty said(1, Module.new)
  end

  def test_a_pool_that_is_smaller
    line, = said(1000, root([Configuration.new("primary", 5)]))
    assert_match(/max_fibers is 1000, and Active Record's pool `primary' has 5 connections/, line)
    assert_match(/set `max_fibers 5'/, line)
  end

  def test_each_database_counts_alone
    pools = [Configuration.new("primary", 10), Configuration.new("queue", 2), NewConfiguration.new("cache", 3)]
    assert_equal(%w[queue cache], said(10, root(pools)).map { |line| line[/`(\w+)' has/, 1] })
    assert_empty said(2, root(pools))
  end

  def test_a_pool_without_a_limit
    assert_empty said(1000, root([NewConfiguration.new("primary", nil)]))
  end

  def test_the_environment_is_that_of_rails
    with_rails = root([], env: :staging)
    said(1, with_rails)
    assert_equal "staging", with_rails.wanted
  end

  def test_nothing_is_loaded_and_nothing_breaks
    lazy = Module.new { autoload :ActiveRecord, "/no/such/file" }
    assert_empty said(1, lazy)
    assert_empty said(1, root(RuntimeError.new("no database.yml")))
  end
end
