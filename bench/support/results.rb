# frozen_string_literal: true

require "fileutils"
require "json"

module Bench
  # Writes what was measured, with the machine it was measured on.
  module Results
    DIRECTORY = File.join(DIR, "results")

    module_function

    # @param name [String] the benchmark
    # @param data [Hash] everything that a later reader needs
    # @return [String] the path, below the project's root
    def write(name, data)
      FileUtils.mkdir_p(DIRECTORY)
      path = File.join(DIRECTORY, "#{Time.now.utc.strftime("%Y-%m-%d-%H%M%S")}-#{name}.json")
      text = JSON.pretty_generate({ benchmark: name, machine: Machine.facts }.merge(data))
      # Where the project lies on this machine is nobody else's matter.
      File.write(path, "#{text.gsub("#{ROOT}/", "")}\n")
      path.delete_prefix("#{ROOT}/")
    end
  end
end
