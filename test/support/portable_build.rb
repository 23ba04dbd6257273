# frozen_string_literal: true

# The extension as `rake compile:portable` builds it, without anything that POSIX 2008 lacks. A Ruby that loads this
# file first has it, and so have those that it starts, whatever load path they are given.
module PortableBuild
  # At the front of the load path.
  FOLDER = File.expand_path("../../tmp/portable", __dir__)

  # @return [Hash{String => String}] for the environment of a process
  def self.environment
    { "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), "-r#{__FILE__.delete_suffix(".rb")}"].compact.join(" ") }
  end

  $LOAD_PATH.unshift(FOLDER)
end
