# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"
require "support/server_case"

# Active Record without isolation levels, and ActiveSupport without Rails; test/frameworks/rails_isolation_test.rb has
# a Rails.
class ActiveRecordTest < Minitest::Test
  include ProcessCase

  APP = "module ActiveRecord; class Base; end; end\nrun ->(_env) { [200, {}, ['x']] }\n"

  def test_an_old_one_is_refused_on_fibers
    command = run_abaca(APP)
    assert_equal 1, command.wait.exitstatus
    assert_match(/\Aabaca: Active Record before 7\.0 .* `mode :thread'\n\z/, command.said)
  end

  def test_an_old_one_is_served_on_threads
    command = run_abaca(APP, "--mode", "thread")
    assert_equal "x", connect(command.port).call(ServerCase::GET).body
  end

  # As Grape loads it: the level is set, and nobody is told of a setting that only a Rails app has.
  def test_active_support_alone
    command = run_abaca(<<~RUBY)
      require "active_support"
      require "active_support/isolated_execution_state"
      run ->(_env) { [200, {}, [ActiveSupport::IsolatedExecutionState.isolation_level.to_s]] }
    RUBY
    assert_equal "fiber", connect(command.port).call(ServerCase::GET).body
    refute_match(/rails|config\./i, command.text)
  end
end
