# frozen_string_literal: true

require "test_helper"
require "abaca/launcher"
require "open3"
require "tmpdir"

# What a restart executes again.
class OriginTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  SHOW = <<~RUBY
    require "abaca"
    title = ENV.delete("TITLE") and Process.setproctitle(title)
    ENV["LATER"] = "1"
    origin = Abaca::Launcher::Origin.new(argv: %w[a b], command: ENV["COMMAND"])
    print Marshal.dump([origin.words, origin.environment, origin.directory])
  RUBY

  def setup
    super
    @directory = File.realpath(Dir.mktmpdir("abaca"))
  end

  def teardown
    FileUtils.rm_rf(@directory)
    super
  end

  def test_command_environment_and_folder_of_the_start
    need_platform(:proc)
    words, environment, directory = show({ "FIRST" => "first=1" }, "x y", "")

    assert_equal [*paths, "-e", SHOW, "x y", ""], words.drop(1)
    assert_equal "first=1", environment["FIRST"]
    refute environment.key?("LATER")
    assert_equal @directory, directory
  end

  def test_the_folder_keeps_its_link
    link = "#{@directory}/current"
    File.symlink(".", link)

    assert_equal link, show({ "PWD" => link }).last
    assert_equal @directory, show({ "PWD" => "/" }).last
  end

  def test_a_command_of_ones_own
    assert_equal ["bin/other", "an option", "a", "b"], show({ "COMMAND" => "bin/other 'an option'" }).first
  end

  # `bundle exec` gives the process a title.
  def test_when_the_command_line_is_gone
    words, = show({ "TITLE" => "x", "BUNDLE_BIN_PATH" => "/b/bundle" }, "arg")

    assert_equal ["/b/bundle", "exec", "#{@directory}/-e", "arg"], words.drop(1)
    assert_equal ["-e", "arg"], show({ "TITLE" => "x" }, "arg").first.drop(1)
  end

  def test_bundler_looks_for_the_gemfile_anew
    found = { "BUNDLE_GEMFILE" => "/releases/1/Gemfile",
              "BUNDLER_ORIG_BUNDLE_GEMFILE" => "BUNDLER_ENVIRONMENT_PRESERVER_INTENTIONALLY_NIL" }
    given = found.merge("BUNDLER_ORIG_BUNDLE_GEMFILE" => "/current/Gemfile")

    refute show(found)[1].key?("BUNDLE_GEMFILE")
    assert_equal "/current/Gemfile", show(given)[1]["BUNDLE_GEMFILE"]
  end

  private

  def show(env, *arguments)
    none = ENV.keys.grep(/\ABUNDLE|\ARUBYOPT|\ARUBYLIB/).to_h { |name| [name, nil] }
    out, status = Open3.capture2({ **none, "PWD" => @directory, **env }, RbConfig.ruby, *paths, "-e", SHOW, *arguments,
                                 chdir: @directory)
    assert_predicate status, :success?
    Marshal.load(out) # rubocop:disable Security/MarshalLoad -- our own
  end

  # Gems too, since there is no Bundler.
  def paths = $LOAD_PATH.map { |path| "-I#{path}" }
end
