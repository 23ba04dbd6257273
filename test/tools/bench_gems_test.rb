# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "rbconfig"
require_relative "../../bench/support/bench"
require_relative "../../bench/rails/rails_gems"

# The gem folders of the benchmarks.
class BenchGemsTest < Minitest::Test
  # In place of `ruby -S gem install --no-document NAMES`: writes what it was asked for, and specifications of these
  # gems except `missing`.
  FakeRuby = Struct.new(:missing, :rubygems, keyword_init: true) do
    def version = "0.0.#{Process.pid}"
    def here? = false

    def command(*words)
      code = <<~CODE
        missing, *names = ARGV
        home = ENV.fetch("GEM_HOME")
        folder = File.join(home, "specifications")
        require "fileutils"
        FileUtils.mkdir_p(folder)
        File.write(File.join(home, "asked"), names.join(" ") + "\\n", mode: "a")
        names.map { |name| name[/[^:]+/] }.each do |name|
          next warn("ERROR: it does not compile") if name == missing

          File.write(File.join(folder, name + "-1.2.gemspec"), "")
        end
      CODE
      [RbConfig.ruby, "-e", code, missing.to_s, *words.drop(4)]
    end
  end

  def home(gem) = File.join(Bench::ROOT, "tmp", "bench-gems", "#{gem}-ruby#{FakeRuby.new.version}")
  def asked(gem) = File.readlines(File.join(home(gem), "asked"), chomp: true)
  def teardown = FileUtils.rm_rf(%w[one railties].map { |gem| home(gem) })

  def install(**terms)
    capture_io { Bench::Gems.new("one", **terms).install }
    asked("one")
  end

  def test_gems_are_installed_once_and_the_folder_is_completed
    ruby = FakeRuby.new
    assert_equal ["two:<3 one"], install(ruby: ruby, with: ["two:<3"])
    assert_equal 1, install(ruby: ruby, with: ["two:<3"]).size
    assert_equal ["two:<3 one", "two:<3 three one"], install(ruby: ruby, with: ["two:<3", "three"])
    assert_equal "1.2", Bench::Gems.new("one", ruby: ruby).version
  end

  def test_a_failure_is_remembered_with_its_reason
    reason = "does not install on Ruby #{FakeRuby.new.version}: ERROR: it does not compile"
    [FakeRuby.new(missing: "two"), FakeRuby.new].each do |ruby|
      error = assert_raises(Bench::Unavailable) { install(ruby: ruby, with: %w[two]) }
      assert_equal reason, error.message
    end
  end

  # Ctrl-C, or the end of a scenario's time.
  def test_an_installation_ends_with_the_benchmark
    place = File.join(Dir.mktmpdir, "pid")
    installs = "File.write(#{place.dump}, Process.pid.to_s); sleep 60"
    benchmark = spawn(RbConfig.ruby, "-e", <<~CODE, err: File::NULL)
      require #{File.join(Bench::DIR, "support/bench").dump}
      ruby = Struct.new(:version) { def command(*) = [#{RbConfig.ruby.dump}, "-e", #{installs.dump}] }
      Bench::Gems.new("one", ruby: ruby.new("0.0.#{Process.pid}")).install
    CODE
    pid = Bench::Clock.wait_until(seconds: 20) { File.exist?(place) && File.read(place)[/\d+/] }
    Process.kill(:TERM, benchmark)
    ended = Bench::Clock.wait_until(seconds: 10) { Process.wait(benchmark, Process::WNOHANG) }
    Process.kill(:KILL, benchmark) unless ended
    assert ended, "it waits for the installation"
    refute Dir.exist?("/proc/#{pid}")
  ensure
    FileUtils.rm_rf(File.dirname(place))
  end

  def test_the_gems_of_rails_are_not_compiled_where_they_need_not_be
    newest = "activerecord actioncable sqlite3 pg rack railties"
    { "3.3.15" => "nokogiri:<1.18 #{newest}", "3.3.22" => newest }.each do |rubygems, wanted|
      capture_io { Bench::RailsGems.of(FakeRuby.new(rubygems: rubygems)).install }
      assert_equal [wanted], asked("railties")
      teardown
    end
  end
end
