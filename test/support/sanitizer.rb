# frozen_string_literal: true

require "rbconfig"

# The extension as `rake compile:sanitized` builds it, under AddressSanitizer and UndefinedBehaviorSanitizer, and what a
# process needs to run with it.
#
# Leaks are not checked: Ruby itself does not free everything at exit. Fibers run on stacks that the sanitizer does
# not know; it says so once, and the extension is built without checks of the stack. The C tests have them. Ruby has
# signal stacks of its own, and finds its stack overflows by SIGSEGV.
module Sanitizer
  # At the front of the load path.
  FOLDER = File.expand_path("../../tmp/sanitized", __dir__)
  EXTENSION = File.join(FOLDER, "abaca/abaca.#{RbConfig::CONFIG.fetch("DLEXT")}")
  QUIET_FORK = File.expand_path("quiet_fork", __dir__)
  OPTIONS = {
    "ASAN_OPTIONS" => %w[detect_leaks=0 detect_stack_use_after_return=0 use_sigaltstack=0 handle_segv=0
                         abort_on_error=1 quarantine_size_mb=32].join(":"),
    "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1"
  }.freeze

  # @return [Boolean] whether this process runs under it
  def self.here? = ENV["LD_PRELOAD"].to_s.include?("asan")

  # @return [Hash{String => String}] for the process's environment
  # @raise [RuntimeError] when something is missing, with what to do
  def self.environment
    raise "#{EXTENSION} is missing: rake compile:sanitized builds it" unless File.exist?(EXTENSION)

    library = `gcc -print-file-name=libasan.so`.strip
    raise "libasan.so is missing: it comes with gcc" unless File.exist?(library)

    options = [ENV.fetch("RUBYOPT", nil), "-r#{QUIET_FORK}"].compact.join(" ")
    OPTIONS.merge("LD_PRELOAD" => File.realpath(library), "RUBYOPT" => options)
  end
end
