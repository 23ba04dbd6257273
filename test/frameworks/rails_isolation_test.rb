# frozen_string_literal: true

require "test_helper"
require "support/framework_case"

# What the server does about a Rails app's isolation level, and what it says at boot.
class RailsIsolationTest < Minitest::Test
  FOLDER = File.join(FrameworkCase::FOLDER, "rails")
  SHARED = /warning: ActiveSupport with the isolation level :thread on fibers: .*share CurrentAttributes; set/

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
    refute_match SHARED, output
  end

  def test_what_the_app_has_set_stays_and_is_warned_of
    level, output = boot("ISOLATION" => "thread")
    assert_equal "thread", level
    assert_match SHARED, output
    assert_equal 1, output.scan("isolation level :thread").size, output
  end

  def test_on_threads_nothing_is_set_and_nothing_said
    level, output = boot("--mode", "thread")
    assert_equal "thread", level
    refute_match(/ on fibers: /, output)
  end

  # A locale that crosses from request to request, with the gem's own way to keep it on this Ruby.
  def test_a_gem_that_keeps_its_state_for_a_thread_is_said
    _level, output = boot
    without_storage = Fiber.respond_to?(:[]) ? 0 : 1
    assert_equal without_storage, output.scan(/i18n \S+ on fibers: the locale belongs to the thread/).size, output
  end
end
