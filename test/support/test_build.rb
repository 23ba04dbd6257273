# frozen_string_literal: true

# The extension as `rake compile:NAME` builds it for tests: "sanitized" (AddressSanitizer and
# UndefinedBehaviorSanitizer), "races" (ThreadSanitizer), "portable" (nothing that POSIX 2008 lacks), or
# "sanitized-portable". A Ruby that loads this file first has the build that ABACA_TEST_BUILD names, and so have those
# that it starts, whatever load path they are given.
module TestBuild
  ROOT = File.expand_path("../..", __dir__)
  VARIABLE = "ABACA_TEST_BUILD"
  # Leaks are not checked: Ruby itself does not free everything at exit. Fibers run on stacks that the sanitizers do not
  # know. AddressSanitizer says so once, and the extension is built without checks of the stack; the C tests have them.
  # Ruby has signal stacks of its own, and finds its stack overflows by SIGSEGV.
  ADDRESS = { "ASAN_OPTIONS" => %w[detect_leaks=0 detect_stack_use_after_return=0 use_sigaltstack=0 handle_segv=0
                                   abort_on_error=1 quarantine_size_mb=32].join(":"),
              "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1" }.freeze
  # It sees the mutexes of Ruby, its global lock among them, though Ruby itself is not built with it.
  THREAD = { "TSAN_OPTIONS" => %W[report_signal_unsafe=0 die_after_fork=0
                                  suppressions=#{File.expand_path("races.txt", __dir__)}].join(":") }.freeze
  private_constant :ADDRESS, :THREAD
  # Where Ruby, or a sanitizer, says that something is wrong.
  REPORT = /\[BUG\]|ERROR: AddressSanitizer|ERROR: LeakSanitizer|WARNING: ThreadSanitizer|runtime error:/

  # What AddressSanitizer prints once in a process whose fibers have stacks of their own.
  STACK_WARNING = /^==\d+==WARNING: ASan is ignoring requested __asan_handle_no_return.*\n.*\nFor details see .*\n/

  # @param name [String]
  # @return [String] the folder at the front of the load path
  def self.folder(name) = File.join(ROOT, "tmp", name)

  # The Gemfile is there for servers that restart: without the kernel's help they do so by `bundle exec`, which looks
  # for it in their folder, and takes the environment that Bundler has found.
  #
  # @param name [String]
  # @param inherited [String, nil] RUBYOPT as it is
  # @return [Hash{String => String}] for the environment of a process
  # @raise [RuntimeError] when the build is missing, with what to do
  def self.environment(name, inherited = ENV.fetch("RUBYOPT", nil))
    raise "#{folder(name)} is missing: rake compile:#{name} builds it" unless File.exist?(folder(name))

    own = "-r#{__FILE__.delete_suffix(".rb")}"
    found = { VARIABLE => name, "RUBYOPT" => [inherited, own].compact.join(" ") }
    if name.include?("portable")
      found.update("BUNDLER_ORIG_RUBYOPT" => own, "BUNDLER_ORIG_BUNDLE_GEMFILE" => File.join(ROOT, "Gemfile"))
    end
    found.update(ADDRESS, preload("libasan.so")) if name.include?("sanitized")
    found.update(THREAD, preload("libtsan.so")) if name == "races"
    found
  end

  def self.preload(library)
    path = `gcc -print-file-name=#{library}`.strip
    raise "#{library} is missing: it comes with gcc" unless File.exist?(path)

    { "LD_PRELOAD" => File.realpath(path) }
  end
  private_class_method :preload

  # @return [Boolean] whether this process runs under sanitizers
  def self.sanitized? = ENV[VARIABLE].to_s.include?("sanitized")

  $LOAD_PATH.unshift(folder(ENV[VARIABLE])) if ENV[VARIABLE]
  require_relative "quiet_fork" if sanitized?
end
