# frozen_string_literal: true

# The extension as `rake compile:portable` builds it, without anything that POSIX 2008 lacks. A Ruby that loads this
# file first has it, and so have those that it starts, whatever load path they are given.
module PortableBuild
  # At the front of the load path.
  FOLDER = File.expand_path("../../tmp/portable", __dir__)

  # The Gemfile is there for servers that restart: without the kernel's help they do so by `bundle exec`, which looks
  # for it in their folder, and takes the environment that Bundler has found.
  #
  # @return [Hash{String => String}] for the environment of a process
  def self.environment
    own = "-r#{__FILE__.delete_suffix(".rb")}"
    { "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), own].compact.join(" "), "BUNDLER_ORIG_RUBYOPT" => own,
      "BUNDLER_ORIG_BUNDLE_GEMFILE" => File.expand_path("../../Gemfile", __dir__) }
  end

  $LOAD_PATH.unshift(FOLDER)
end
