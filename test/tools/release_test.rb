# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "tmpdir"

# bin/release in a repository of its own: what it refuses, a line each, and what it builds.
class ReleaseTest < Minitest::Test
  COMMAND = File.expand_path("../../bin/release", __dir__)
  FILES = {
    "lib/abaca/version.rb" => "module Abaca\n  VERSION = \"1.2.3\"\nend\n", "lib/abaca.rb" => "",
    "CHANGELOG.md" => "# Changelog\n\n## 1.2.3 (2026-12-01)\n", "docs/all.md" => "", ".gitignore" => "/pkg\n",
    "abaca.gemspec" => <<~RUBY
      require_relative "lib/abaca/version"
      Gem::Specification.new do |spec|
        spec.name = "abaca"
        spec.version = Abaca::VERSION
        spec.authors = ["a"]
        spec.summary = "s"
        spec.files = Dir["lib/**/*.rb", "docs/*.md"]
      end
    RUBY
  }.freeze

  def setup
    super
    skip "no git" unless system("git", "--version", out: File::NULL, err: File::NULL)
  end

  # Yields the folder of a repository that can be released, with other texts for some files; returns what is printed
  # about it then, and the command's success.
  def release(files = {}, *words)
    Dir.mktmpdir do |root|
      FILES.merge("bin/release" => File.read(COMMAND)).merge(files).each { |path, text| write(root, path, text) }
      git(root, "init", "--quiet")
      commit(root)
      git(root, "tag", "v1.2.3")
      yield root if block_given?
      command = [{ "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil }, RbConfig.ruby, "bin/release", *words]
      output, status = Open3.capture2e(*command, chdir: root)
      @built = Dir.children(root).include?("pkg") ? Dir.children(File.join(root, "pkg")) : []
      [output.lines(chomp: true), status.success?]
    end
  end

  def write(root, path, text)
    FileUtils.mkdir_p(File.dirname(File.join(root, path)))
    File.write(File.join(root, path), text)
  end

  def git(root, *words)
    output, status = Open3.capture2e("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words, chdir: root)
    assert_predicate status, :success?, output
  end

  def commit(root)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "all")
  end

  def assert_refused(*lines, files: {}, &change)
    output, success = release(files, "--dry-run", &change)
    assert_equal lines.map { |line| "bin/release: #{line}" }, output
    refute success
    assert_empty @built
  end

  def test_without_dry_run_there_is_a_gem
    output, success = release
    assert success, output.join("\n")
    assert_match(%r{\Abin/release: pkg/abaca-1\.2\.3\.gem \h{64}\z}, output.first)
    assert_equal ["abaca-1.2.3.gem"], @built
  end

  def test_a_version_that_is_none
    files = { "lib/abaca/version.rb" => "module Abaca\n  VERSION = \"1.2\"\nend\n",
              "CHANGELOG.md" => "## 1.2 (2026-12-01)\n" }
    assert_refused('the version "1.2" is no number like 1.2.3', "there is no tag v1.2", files: files)
  end

  def test_a_changelog_of_another_version_or_without_a_date
    ["## 1.2.2 (2026-12-01)", "## 1.2.3 (not released)"].each do |first|
      assert_refused(%(CHANGELOG.md begins with "#{first}", not with "## 1.2.3 (YEAR-MONTH-DAY)"),
                     files: { "CHANGELOG.md" => "#{first}\n" })
    end
  end

  def test_no_tag
    assert_refused("there is no tag v1.2.3") { |root| git(root, "tag", "--delete", "v1.2.3") }
  end

  def test_a_tree_with_changes_and_a_tag_of_another_commit
    assert_refused("the working tree has 1 changes that are not committed",
                   "the tag v1.2.3 is of another commit") do |root|
      commit(root)
      write(root, "README.md", "new")
    end
  end

  def test_a_gem_that_lacks_a_file_and_has_one_that_git_does_not_have
    assert_refused("the gem lacks lib/page.html (1 files)", "the gem has lib/made.rb (1 files), which git does not",
                   files: { ".gitignore" => "/pkg\nmade.rb\n", "lib/made.rb" => "", "lib/page.html" => "" })
  end

  # A picture or an example is for those who read the repository: of docs the gem has the pages.
  def test_what_lacks_nothing_is_ready
    files = { "docs/cost.svg" => "<svg/>", "docs/examples/nginx.conf" => "", "docs/all.md" => "![cost](cost.svg)" }
    assert_equal [["bin/release: 1.2.3 is ready"], true], release(files, "--dry-run")
    assert_empty @built
  end

  # As it is committed; what else a release would lack does not matter here.
  def test_this_repository_has_a_gem_with_its_files
    here = File.expand_path("../..", __dir__)
    skip "no repository" unless system("git", "rev-parse", chdir: here, out: File::NULL, err: File::NULL)

    Dir.mktmpdir do |folder|
      root = File.join(folder, "abaca")
      git(folder, "clone", "--quiet", "--shared", here, root)
      command = [{ "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil }, RbConfig.ruby, "bin/release", "--dry-run"]
      assert_empty Open3.capture2e(*command, chdir: root).first.lines.grep(/the gem/)
    end
  end

  def test_a_gem_that_is_another_each_time
    changed = FILES["abaca.gemspec"].sub('"s"', "\"s\#{Process.pid}\"")
    assert_refused("two builds of the gem differ", files: { "abaca.gemspec" => changed })
  end

  def test_a_gem_that_cannot_be_built
    changed = FILES["abaca.gemspec"].sub('spec.authors = ["a"]', "spec.authors = []")
    output, success = release({ "abaca.gemspec" => changed }, "--dry-run")
    refute success
    assert_match(%r{\Abin/release: the gem cannot be built: \S}, output.first)
  end

  def test_a_word_that_is_unknown
    output, success = release({}, "--dy-run")
    assert_equal ["bin/release: --dy-run is unknown; usage: bin/release [--dry-run]"], output
    refute success
  end
end
