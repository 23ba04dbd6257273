# frozen_string_literal: true

require_relative "programs"

# For tests of a server on a system that fails, or is slow: libraries of test/fault/shim that replace some of libc's
# functions. Expects ProcessCase.
module Shim
  SOURCES = File.expand_path("../fault/shim", __dir__)

  # Commands that the block starts load the library of that name.
  def with_shim(name)
    library = File.join(@directory, "#{name}.so")
    source = File.join(SOURCES, "#{name}.c")
    compile = Programs.words("cc", "-shared", "-fPIC", "-D_GNU_SOURCE", source, "-o", library)
    assert system(*compile), "the shim does not compile"
    before = ENV.fetch("LD_PRELOAD", nil)
    ENV["LD_PRELOAD"] = [before, library].compact.join(":") # a sanitizer's library has to be the first
    yield
  ensure
    ENV["LD_PRELOAD"] = before
  end
end
