# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/framework_case"

# What the server does about a Rails app's isolation level, and what it says at boot.
class RailsIsolationTest < Minitest::Test
  FOLDER = File.join(FrameworkCase::FOLDER, "rails")
  CHANGED = /\* ActiveSupport: the isolation level is :fiber, so that requests share neither CurrentAttributes nor/

  def teardown
    @server&.destroy
    super
  end

  # Serves one request of the app; returns what it says its isolation level is, and all that the server printed
  # until its end.
  def boot(*options, **env)
    words = Command.words([*options, "-b", "tcp://127.0.0.1:0", "config.ru"])
    @server = Command::Running.new(words, dir: FOLDER, env: FrameworkCase.environment(FOLDER).merge(env))
    level = @server.get("/isolation").body
    @server.signal(:TERM)
    @server.wait
    [level, @server.output]
  end

  def test_the_server_sets_the_level_where_the_app_has_not
    level, output = boot
    assert_equal "fiber", level
    refute_match CHANGED, output
  end

  # Requests would share connections, and end each other's transactions.
  def test_a_level_that_would_corrupt_data_is_changed
    level, output = boot("ISOLATION" => "thread")
    assert_equal "fiber", level
    assert_equal 1, output.scan(CHANGED).size, output
  end

  def test_on_threads_nothing_is_set_and_nothing_said
    level, output = boot("--mode", "thread")
    assert_equal "thread", level
    refute_match(/ on fibers: /, output)
    refute_match CHANGED, output
  end
end
