# frozen_string_literal: true

require "test_helper"
require "abaca"

# What somebody is told to install.
class PackagesTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  SOURCES = %w[ext/abaca/extconf.rb lib/abaca/config/bind.rb lib/abaca/config/tls.rb].freeze

  def hint(package, platform) = Abaca::Packages.hint(package, platform:)

  # Debian's names, wherever they are asked for.
  def packages
    SOURCES.flat_map do |path|
      File.read(File.join(ROOT, path)).scan(/need\("[^"]*", "([\w-]+)"\)|Packages\.hint\(['"]([\w-]+)/).flatten.compact
    end.uniq.sort
  end

  def test_each_package
    assert_equal %w[build-essential libc6-dev libnghttp2-dev libssl-dev ruby-dev], packages
    packages.each do |package|
      assert_equal "Debian: apt-get install #{package}", hint(package, "x86_64-linux-gnu")
      assert_match(/\AmacOS: (?:brew install [\w@-]+|xcode-select --install)\z/, hint(package, "arm64-darwin24"))
    end
  end
end
