# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"

# prune_bundler: the master is in no bundle, and each worker enters the one that is there then. The bundles have gems of
# the test's own.
class ClusterPrunedBundleTest < Minitest::Test
  include ClusterCase

  ROOT = File.expand_path("../..", __dir__)
  APP = <<~'RUBY'
    require "prunable"
    run ->(_env) { [200, { "content-type" => "text/plain" }, ["#{PRUNABLE} #{ENV.key?('ABACA_PRUNED_WORDS')}"]] }
  RUBY

  def setup
    super
    [1, 2].each { |version| make_gem(version) }
    bundle(1)
  end

  def make_gem(version)
    folder = File.join(@directory, "gem-#{version}")
    FileUtils.mkdir_p(File.join(folder, "lib"))
    File.write(File.join(folder, "lib/prunable.rb"), "PRUNABLE = #{version}\n")
    File.write(File.join(folder, "prunable.gemspec"), <<~RUBY)
      Gem::Specification.new do |spec|
        spec.name = "prunable"
        spec.version = "#{version}.0"
        spec.authors = spec.summary = "test"
        spec.files = ["lib/prunable.rb"]
      end
    RUBY
  end

  # Writes the Gemfile with this version of the gem, and other lines; `bundle` resolves it with the gems of the machine.
  def bundle(version, *lines)
    File.write(File.join(@directory, "Gemfile"), <<~RUBY)
      source Gem.sources.first.uri.to_s
      gem "abaca", path: #{ROOT.dump}
      gem "prunable", path: #{File.join(@directory, "gem-#{version}").dump}
      #{lines.join("\n")}
    RUBY
    FileUtils.rm_f(File.join(@directory, "Gemfile.lock"))
  end

  # The test's own bundle is not the command's.
  def environment_of_bundle
    names = ENV.keys.grep(/\ABUNDLE|\ARUBYLIB\z/)
    names.to_h { |name| [name, nil] }
         .merge("BUNDLE_GEMFILE" => File.join(@directory, "Gemfile"), "RUBYOPT" => "-rbundler/setup")
  end

  def run_pruned(config = "", count: 2, env: {})
    File.write(File.join(@directory, "abaca.rb"), "workers 2\nprune_bundler\n#{config}")
    File.write(File.join(@directory, "config.ru"), APP)
    start_abaca("-b", "tcp://127.0.0.1:0", "-C", "abaca.rb", env: environment_of_bundle.merge(env))
      .tap { |command| wait_for_workers(command, count) }
  end

  def all_of?(command, phase) = eventually { running(command).map(&:phase) == [phase, phase] }

  def environment(pid) = File.binread("/proc/#{pid}/environ").split("\0")

  def test_the_master_is_in_no_bundle
    command = run_pruned
    refute(environment(command.pid).any? { |pair| pair.start_with?("RUBYOPT=") })
    assert_equal "1 false", ask(command)
    assert_match(/\+ Gemfile in context: #{Regexp.escape(File.realpath(@directory))}/, command.text)
    assert_equal 0, finish(command)
  end

  def test_workers_of_a_master_that_was_started_in_none
    command = run_pruned(env: { "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil })
    assert_equal "1 false", ask(command)
    assert_match(/\+ Gemfile in context: #{Regexp.escape(File.realpath(@directory))}/, command.text)
    assert_equal 0, finish(command)
  end

  def test_a_phased_restart_takes_another_bundle
    command = run_pruned
    load = Load.new(command.port)
    assert load.more?
    bundle(2)
    command.signal(:USR1)
    assert all_of?(command, 1), command.text
    assert_equal "2 false", ask(command)
    assert load.more?
    assert_empty load.stop
    assert_equal 0, finish(command)
  end

  def test_a_bundle_that_cannot_be_used
    command = run_pruned
    bundle(2, 'gem "no-gem-of-this-name"')
    command.signal(:USR1)
    command.wait_for(/the phased restart is given up/)
    assert_match(/worker 0 cannot start: the bundle cannot be used: .*no-gem-of-this-name/, command.text)
    assert_equal "1 false", ask(command)
    assert_equal 0, finish(command)
  end

  def test_a_hot_restart_begins_as_the_first_start_did
    command = run_pruned
    bundle(2)
    command.signal(:USR2)
    command.wait_for(/\* Restarting: .*abaca\.rb/)
    assert(eventually { booted(command).size >= 6 }, command.text)
    assert_equal "2 false", ask(command)
    assert_equal 0, finish(command)
  end

  # They come in the bundle, which the master then leaves by another exec.
  def test_signals_at_a_hot_restart
    need_platform(:held_signals)
    boot = File.join(@directory, "boot.rb")
    File.write(boot, <<~RUBY)
      %w[-HUP -URG].each { |name| system("kill", name, Process.pid.to_s) } if ENV.key?("ABACA_SUCCESSOR")
    RUBY
    command = run_pruned(<<~'RUBY', count: 0, env: { "RUBYOPT" => "-rbundler/setup -r#{boot}" })
      Abaca::Launcher.prepend(Module.new do
        def actions = super.to_h { |name, action| [name, -> { $stdout.syswrite("acted on #{name}\n") && action.call }] }
      end)
      stdout_redirect "log", "log", true
    RUBY
    log = File.join(@directory, "log")
    assert eventually { File.file?(log) && File.read(log).scan(BOOTED).size == 2 }
    command.signal(:USR2)
    assert eventually { File.read(log).scan(BOOTED).size == 6 }, File.read(log)
    assert_equal({ "HUP" => 1, "URG" => 1, "USR2" => 1 }, File.read(log).scan(/^acted on (?!CHLD)(\w+)$/).flatten.tally)
    assert_equal 0, finish(command)
  end

  def test_gems_that_the_master_needs
    command = run_pruned("extra_runtime_dependencies %w[prunable]\nrequire \"prunable\"\ntag PRUNABLE.to_s\n")
    assert_equal "1 false", ask(command)
    assert_equal 0, finish(command)
  end

  def test_a_dependency_that_is_not_there
    command = run_pruned("extra_runtime_dependencies %w[nowhere]\n", count: 0)
    assert_equal 1, command.wait.exitstatus
    assert_equal "abaca: extra_runtime_dependencies: nowhere is not in the bundle\n", command.text
  end
end
