# frozen_string_literal: true

require "test_helper"
require "cli/command"

# The names that the commands have besides their own: those of Puma's.
class CommandNamesTest < Minitest::Test
  include Command

  # What the test's Puma does.
  THEIRS = "puts \"theirs: \#{ARGV.join(' ')}\"\n"

  def test_names_of_puma
    { "puma" => "abaca version ", "pumactl" => "abacactl version " }.each do |name, text|
      ended = run_command("--version", executable: name, env: Bundle::OUTER)
      assert_equal [0, ""], [ended.status, ended.err]
      assert_match(/\A#{text}\d/, ended.out)
    end
  end

  # Without a bundle, the names are those of the gem that is installed.
  def test_outside_a_bundle
    file("gems/specifications/puma-9.9.9.gemspec", <<~RUBY)
      Gem::Specification.new do |spec|
        spec.name, spec.version, spec.summary, spec.authors = "puma", "9.9.9", "theirs", ["them"]
        spec.bindir = "bin"
        spec.executables = %w[puma pumactl]
      end
    RUBY
    %w[puma pumactl].each do |name|
      file("gems/gems/puma-9.9.9/bin/#{name}", THEIRS)
      env = { "RUBYOPT" => nil, "BUNDLE_GEMFILE" => nil, "BUNDLER_SETUP" => nil, "GEM_PATH" => "#{@dir}/gems" }
      ended = run_command("stop", executable: name, env: env)
      assert_equal [0, "theirs: stop\n"], [ended.status, ended.out], ended.err
    end
  end

  # Its gem is in the bundle, too.
  def test_puma_itself_comes_first
    %w[puma pumactl].each { |name| file("bin/#{name}", THEIRS) }
    file("bundle.rb", <<~RUBY)
      Gem.loaded_specs["puma"] = Gem::Specification.new("puma", "8.0.2") do |spec|
        spec.define_singleton_method(:bin_file) { |name| File.join(#{@dir.inspect}, "bin", name) }
      end
    RUBY
    %w[puma pumactl].each do |name|
      ended = run_command("stop", "-p", "1", executable: name, env: { "RUBYOPT" => "-r#{@dir}/bundle.rb" })
      assert_equal [0, "theirs: stop -p 1\n"], [ended.status, ended.out], ended.err
    end
  end
end
