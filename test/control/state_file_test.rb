# frozen_string_literal: true

require "test_helper"
require "yaml"
require "abaca"
require "abaca/control"

# The file that tells others of a server.
class StateFileTest < Minitest::Test
  StateFile = Abaca::Control::StateFile

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @path = "#{@dir}/state"
  end

  def teardown
    FileUtils.remove_entry(@dir)
    super
  end

  def mode = File.stat(@path).mode & 0o777

  def test_what_stands_in_it
    StateFile.new(@path).write(control_url: "unix:///a b", token: "secret")
    assert_equal ["---", "pid: #{Process.pid}", 'control_url: "unix:///a b"', "control_auth_token: secret",
                  "running_from: \"#{Dir.pwd}\""], File.readlines(@path, chomp: true)
    expected = { pid: Process.pid, control_url: "unix:///a b", control_auth_token: "secret", running_from: Dir.pwd }
    assert_equal expected, StateFile.read(@path)
    assert_equal expected.transform_keys(&:to_s), YAML.safe_load_file(@path)
    assert_equal %w[state], Dir.children(@dir)
  end

  def test_files_of_puma_and_others
    File.write(@path, "---\npid: 12\ncontrol_url: tcp://[::1]:9293\nother: 1\n\nnothing\n")
    assert_equal({ pid: 12, control_url: "tcp://[::1]:9293" }, StateFile.read(@path))
  end

  # A file with a token is nobody else's, unless somebody says so.
  def test_modes
    before = File.umask(0o022)
    StateFile.new(@path).write
    assert_equal 0o644, mode
    StateFile.new(@path).write(token: "secret")
    assert_equal 0o600, mode
    StateFile.new(@path, permission: 0o640).write(token: "secret")
    assert_equal 0o640, mode
  ensure
    File.umask(before)
  end

  # In a folder where others may write, one of them may know the name that comes next.
  def test_a_link_in_the_way
    File.write("#{@dir}/theirs", "theirs")
    File.symlink("#{@dir}/theirs", "#{@path}.#{Process.pid}")
    StateFile.new(@path).write
    assert_equal "theirs", File.read("#{@dir}/theirs")
    refute File.symlink?(@path)
    assert_equal %w[state theirs], Dir.children(@dir).sort
    FileUtils.mkdir("#{@dir}/folder")
    assert_raises(Abaca::ConfigError) { StateFile.new("#{@dir}/folder").write }
    assert_equal %w[folder state theirs], Dir.children(@dir).sort
  end

  def test_its_end
    file = StateFile.new(@path)
    file.remove # before it was written
    file.write
    Process.wait(fork { exit!(file.remove ? 1 : 0) })
    assert_path_exists @path
    File.write(@path, "pid: 1\n")
    file.remove
    assert_path_exists @path, "of another server"
    file.write
    file.remove
    refute_path_exists @path
  end

  def test_a_folder_that_is_not_there
    error = assert_raises(Abaca::ConfigError) { StateFile.new("#{@dir}/none/state").write }
    assert_match(/\Acannot write the state file: /, error.message)
    StateFile.new(nil).write
  end
end
