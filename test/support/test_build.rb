# frozen_string_literal: true

# The extension as `rake compile:NAME` builds it for tests: "sanitized" (AddressSanitizer and
# UndefinedBehaviorSanitizer), "portable" (nothing that POSIX 2008 lacks), or "sanitized-portable". A Ruby that loads
# this file first has the build that ABACA_TEST_BUILD names, and so have those that it starts, whatever load path they
# are given.
module TestBuild
  ROOT = File.expand_path("../..", __dir__)
  VARIABLE = "ABACA_TEST_BUILD"

  # @param name [String]
  # @return [String] the folder at the front of the load path
  def self.folder(name) = File.join(ROOT, "tmp", name)

  # The Gemfile is there for servers that restart: without the kernel's help they do so by `bundle exec`, which looks
  # for it in their folder, and takes the environment that Bundler has found.
  #
  # @param name [String]
  # @return [Hash{String => String}] for the environment of a process
  # @raise [RuntimeError] when the build is missing, with what to do
  def self.environment(name)
    raise "#{folder(name)} is missing: rake compile:#{name} builds it" unless File.exist?(folder(name))

    own = "-r#{__FILE__.delete_suffix(".rb")}"
    bundle = { "BUNDLER_ORIG_RUBYOPT" => own, "BUNDLER_ORIG_BUNDLE_GEMFILE" => File.join(ROOT, "Gemfile") }
    [{ VARIABLE => name, "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), own].compact.join(" ") },
     (bundle if name.include?("portable")), (sanitizer if name.include?("sanitized"))].compact.reduce(:merge)
  end

  # Leaks are not checked: Ruby itself does not free everything at exit. Fibers run on stacks that the sanitizer does
  # not know; it says so once, and the extension is built without checks of the stack. The C tests have them. Ruby has
  # signal stacks of its own, and finds its stack overflows by SIGSEGV.
  def self.sanitizer
    library = `gcc -print-file-name=libasan.so`.strip
    raise "libasan.so is missing: it comes with gcc" unless File.exist?(library)

    { "ASAN_OPTIONS" => %w[detect_leaks=0 detect_stack_use_after_return=0 use_sigaltstack=0 handle_segv=0
                           abort_on_error=1 quarantine_size_mb=32].join(":"),
      "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1", "LD_PRELOAD" => File.realpath(library) }
  end
  private_class_method :sanitizer

  # @return [Boolean] whether this process runs under sanitizers
  def self.sanitized? = ENV[VARIABLE].to_s.include?("sanitized")

  $LOAD_PATH.unshift(folder(ENV[VARIABLE])) if ENV[VARIABLE]
  require_relative "quiet_fork" if sanitized?
end
