# frozen_string_literal: true

require "fileutils"

module Bench
  # Compiles the small C programs of the benchmarks into tmp/, when they are new or changed.
  module Compiler
    FLAGS = %w[-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror].freeze

    module_function

    # @param source [String] path below bench/
    # @return [String] path of the program
    # @raise [Unavailable] with the compiler's first complaint
    def program(source)
      source = File.join(DIR, source)
      target = File.join(TMP, File.basename(source, ".c"))
      return target if File.exist?(target) && File.mtime(target) > File.mtime(source)

      FileUtils.mkdir_p(TMP)
      text, status = Open3.capture2e("gcc", *FLAGS, "-o", target, source)
      raise Unavailable, "does not compile: #{text[/^.*error.*$/] || text.lines.first}" unless status.success?

      target
    rescue Errno::ENOENT
      raise Unavailable, "no gcc"
    end
  end
end
