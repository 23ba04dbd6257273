# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control"

# Pidfile and state file after a hot restart, whose new configuration may name other paths: only the file that the
# process has now stays.
class ProcessFileTest < Minitest::Test
  KINDS = { Abaca::Launcher::Pidfile => "%d\n", Abaca::Control::StateFile => "---\npid: %d\n" }.freeze

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @old = "#{@dir}/old"
  end

  def teardown
    FileUtils.remove_entry(@dir)
    super
  end

  # With each kind, after an earlier program of this process, or another process, has written the old file.
  def each_kind(pid: Process.pid)
    KINDS.each do |kind, text|
      File.write(@old, format(text, pid))
      yield kind
      FileUtils.rm_rf(Dir.children(@dir).map { |name| "#{@dir}/#{name}" })
    end
  end

  def test_the_old_file_goes_when_the_new_one_is_there
    each_kind do |kind|
      file = kind.new("#{@dir}/new", earlier: @old)
      assert_equal %w[old], Dir.children(@dir)
      file.write
      assert_equal %w[new], Dir.children(@dir)
      file.remove
      assert_empty Dir.children(@dir)
    end
  end

  def test_no_file_any_more
    each_kind do |kind|
      kind.new(nil, earlier: @old).write
      assert_empty Dir.children(@dir)
    end
  end

  # The boot of the new program has failed.
  def test_both_go_at_the_end
    ["#{@dir}/new", @old, nil].each do |path|
      each_kind do |kind|
        file = kind.new(path, earlier: @old)
        Process.wait(fork { exit!(file.remove ? 1 : 0) })
        assert_path_exists @old, "a forked child has removed it"
        file.remove
        assert_empty Dir.children(@dir)
      end
    end
  end

  # Each release may have a link to the same folder.
  def test_the_same_file_by_another_path
    each_kind do |kind|
      File.symlink(@dir, "#{@dir}/link")
      kind.new("#{@dir}/link/old", earlier: @old).write
      assert_equal %w[link old], Dir.children(@dir).sort
    end
  end

  def test_the_old_file_of_another_server
    each_kind(pid: 1) do |kind|
      file = kind.new("#{@dir}/new", earlier: @old)
      file.write
      file.remove
      assert_equal %w[old], Dir.children(@dir)
    end
  end

  def test_an_old_folder_that_has_gone
    KINDS.each_key do |kind|
      file = kind.new("#{@dir}/new", earlier: "#{@dir}/gone/old")
      file.write
      assert_equal %w[new], Dir.children(@dir)
      file.remove
    end
  end
end
