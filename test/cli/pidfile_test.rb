# frozen_string_literal: true

require "test_helper"
require "abaca"
require "tmpdir"

# The file with the process id, in a folder where others may write, too.
class PidfileTest < Minitest::Test
  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @path = "#{@dir}/pid"
  end

  def teardown
    FileUtils.remove_entry(@dir)
    super
  end

  def pidfile = @pidfile ||= Abaca::Launcher::Pidfile.new(@path)

  def test_its_life
    before = File.umask(0o027)
    pidfile.write
    assert_equal ["#{Process.pid}\n", 0o640], [File.read(@path), File.stat(@path).mode & 0o777]
    assert_equal %w[pid], Dir.children(@dir)
    Process.wait(fork { exit!(pidfile.remove ? 1 : 0) })
    assert_path_exists @path, "a forked child has removed it"
    pidfile.remove
    refute_path_exists @path
  ensure
    File.umask(before)
  end

  # A reader that has the file open sees what was there.
  def test_it_is_written_in_one_piece
    File.write(@path, "4711\n")
    File.open(@path) do |old|
      pidfile.write
      assert_equal "4711\n", old.read
    end
    assert_equal Process.pid, Integer(File.read(@path))
  end

  def test_a_symbolic_link_is_not_followed
    theirs = "#{@dir}/theirs"
    File.write(theirs, "theirs")
    File.symlink(theirs, @path)
    File.symlink(theirs, "#{@path}.#{Process.pid}")
    pidfile.write
    assert_equal ["theirs", false], [File.read(theirs), File.symlink?(@path)]
    File.write(theirs, "#{Process.pid}\n")
    File.delete(@path)
    File.symlink(theirs, @path)
    pidfile.remove
    assert File.symlink?(@path), "it was not this process's"
  end

  def test_of_another_server
    pidfile.write
    File.write(@path, "1\n")
    pidfile.remove
    assert_path_exists @path
    File.delete(@path)
    File.mkfifo(@path)
    assert Thread.new { pidfile.remove }.join(5), "waits for somebody who writes"
  end

  # As /dev/null, which must not become a file.
  def test_what_is_no_file_stays
    File.mkfifo(@path)
    reader = Thread.new { File.read(@path) }
    pidfile.write
    assert_equal "#{Process.pid}\n", reader.value
    assert_predicate File.stat(@path), :pipe?
  end

  def test_a_folder_that_is_not_there
    error = assert_raises(Abaca::ConfigError) { Abaca::Launcher::Pidfile.new("#{@dir}/none/pid").write }
    assert_match(/\Acannot write the pidfile: No such file/, error.message)
    Dir.mkdir(@path)
    assert_raises(Abaca::ConfigError) { pidfile.write }
    assert_equal %w[pid], Dir.children(@dir)
  end
end
