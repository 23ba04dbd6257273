# frozen_string_literal: true

# also: rubies

require "test_helper"
require "rack"
require "rack/builder"
require "abaca"
require "abaca/app_loader"

# How the app of a rackup file is loaded, with either line of Rack.
class AppLoaderTest < Minitest::Test
  APP = ->(_env) { [200, {}, []] }

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @out = StringIO.new
    @log = Abaca::Log.new(@out)
  end

  def teardown
    FileUtils.remove_entry(@dir)
    super
  end

  def load(text)
    path = File.join(@dir, "config.ru")
    File.write(path, text)
    Abaca::AppLoader.load(path, @log).tap { @log.flush }
  end

  # Rack 2 reads them, Rack 3 refuses the line.
  def test_options_in_the_file
    text = "#\\ -p 3000 -E production\nrun ->(_env) { [200, {}, []] }\n"
    if Rack.release.start_with?("2")
      assert_respond_to load(text), :call
      assert_match(/config.ru: the options of its line `#\\' have no effect \(Port, environment\)/, @out.string)
    else
      assert_match(/cannot load .*config.ru: /, assert_raises(Abaca::ConfigError) { load(text) }.message)
    end
  end

  def test_what_rack_returns
    { [APP, { Port: "1" }] => /have no effect \(Port\)/, [APP, {}] => /\A\z/, APP => /\A\z/ }.each do |result, said|
      @out.truncate(@out.rewind)
      loaded = returning(result) { load("") }
      assert_same APP, loaded
      assert_match said, @out.string
    end
  end

  # Runs the block while Rack returns this for a rackup file.
  def returning(result)
    builder = Rack::Builder.singleton_class
    before = Rack::Builder.method(:parse_file)
    builder.undef_method(:parse_file)
    builder.define_method(:parse_file) { |*| result }
    yield
  ensure
    builder.undef_method(:parse_file)
    builder.define_method(:parse_file, before)
  end
end
