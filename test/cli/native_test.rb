# frozen_string_literal: true

# also: rubies

require "test_helper"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# A tree whose native part has not been built, as a fresh clone is: one line says what to do.
class NativeTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  def setup
    super
    @dir = File.realpath(Dir.mktmpdir("abaca"))
    %w[lib exe].each { |name| FileUtils.cp_r(File.join(ROOT, name), @dir) }
    FileUtils.rm(Dir[File.join(@dir, "lib/abaca/abaca.#{RbConfig::CONFIG.fetch('DLEXT')}*")])
    @line = "abaca: the native part is not built for Ruby #{RUBY_VERSION}; build it with: rake -C #{@dir} compile"
  end

  def teardown
    FileUtils.remove_entry(@dir)
    super
  end

  # Hides installed gems: Abaca itself may be one of them.
  def ruby(*words)
    environment = { "RUBYLIB" => nil, "RUBYOPT" => nil, "BUNDLER_SETUP" => nil, "GEM_HOME" => @dir, "GEM_PATH" => @dir }
    Open3.capture3(environment, RbConfig.ruby, *words)
  end

  def test_the_command
    out, err, status = ruby(File.join(@dir, "exe/abaca"), "-C", "-")
    assert_equal ["", "#{@line}\n", 1], [out, err, status.exitstatus]
  end

  # Only a configuration file needs it.
  def test_the_other_command
    out, err, status = ruby(File.join(@dir, "exe/abacactl"), "-F", File::NULL, "stop")
    assert_equal ["", "#{@line}\n", 1], [out, err, status.exitstatus]
    _, err, status = ruby(File.join(@dir, "exe/abacactl"), "-F", "-", "stop")
    assert_equal ["Neither pid nor control url available\n", 1], [err, status.exitstatus]
  end

  def test_require
    _out, err, status = ruby("-I", File.join(@dir, "lib"), "-e", "require 'abaca'")
    assert_equal ["-e: #{@line} (LoadError)\n", 1], [err, status.exitstatus]
  end

  # Of another Ruby, as far as the linker can tell.
  def test_a_library_that_is_none
    File.write(File.join(@dir, "lib/abaca/abaca.#{RbConfig::CONFIG.fetch('DLEXT')}"), "none")
    _out, err, status = ruby("-I", File.join(@dir, "lib"), "-e", "require 'abaca'")
    assert_match(/invalid ELF header|file too short/, err)
    refute status.success?
  end
end
