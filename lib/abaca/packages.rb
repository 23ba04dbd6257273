# frozen_string_literal: true

module Abaca
  # How somebody gets what is missing on this system: for messages of the gem's build and of the configuration.
  module Packages
    # What has the contents of Debian's packages on macOS: Apple's compiler and its headers, and Homebrew's formulas.
    TOOLS = "xcode-select --install"
    MACOS = {
      "build-essential" => TOOLS,
      "libc6-dev" => TOOLS,
      "ruby-dev" => "brew install ruby",
      "libnghttp2-dev" => "brew install libnghttp2",
      "libssl-dev" => "brew install openssl@3"
    }.freeze
    private_constant :TOOLS, :MACOS

    # @param package [String] Debian's name
    # @param platform [String] Ruby's name of the system
    # @return [String] the system and a command; Debian's where the system is another one
    def self.hint(package, platform: RUBY_PLATFORM)
      platform.include?("darwin") ? "macOS: #{MACOS.fetch(package)}" : "Debian: apt-get install #{package}"
    end
  end
end
