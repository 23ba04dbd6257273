# frozen_string_literal: true

require "fileutils"

module Bench
  # Compiles the small C programs of the benchmarks into tmp/, when they are new or changed.
  module Compiler
    FLAGS = %w[-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror].freeze

    module_function

    # @param source [String] path below bench/
    # @param libraries [Array<String>] to link, such as "-lssl"
    # @return [String] path of the program
    # @raise [Unavailable] with the compiler's first complaint
    def program(source, *libraries) = compile(source, File.basename(source, ".c"), libraries: libraries)

    # @param source [String] path below bench/
    # @return [String] path of a library that can be loaded before a program
    # @raise [Unavailable]
    def library(source) = compile(source, "#{File.basename(source, ".c")}.so", flags: %w[-shared -fPIC])

    def compile(source, name, flags: [], libraries: [])
      source = File.join(DIR, source)
      target = File.join(TMP, name)
      return target if File.exist?(target) && File.mtime(target) > newest(source)

      FileUtils.mkdir_p(TMP)
      text, status = Open3.capture2e("gcc", *FLAGS, *flags, "-o", target, source, *libraries)
      raise Unavailable, "does not compile: #{text[/^.*error.*$/] || text.lines.first}" unless status.success?

      target
    rescue Errno::ENOENT
      raise Unavailable, "no gcc"
    end
    private_class_method :compile

    # When the source, or a header beside it, was changed last.
    def newest(source)
      [source, *Dir[File.join(File.dirname(source), "*.h")]].map { |path| File.mtime(path) }.max
    end
    private_class_method :newest
  end
end
