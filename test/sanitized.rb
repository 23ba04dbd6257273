# frozen_string_literal: true

# Runs the tests that go over the wire against the extension built under AddressSanitizer and
# UndefinedBehaviorSanitizer (`rake compile:sanitized`): ruby test/sanitized.rb [files].
#
# Leaks are not looked for: Ruby itself leaves at exit what it has not freed. Fibers run on stacks that
# the sanitizer does not know; it says so once, and the extension is built without checks of the stack.
# The C tests have them. Ruby has signal stacks of its own, and finds its stack overflows by SIGSEGV.
require "rbconfig"
require_relative "folders"

ROOT = File.expand_path("..", __dir__)
SANITIZED = File.join(ROOT, "tmp/sanitized")
EXTENSION = File.join(SANITIZED, "abaca/abaca.#{RbConfig::CONFIG.fetch('DLEXT')}")
FOLDERS = %w[http1 rack proxies fault guest scheduler pool outbox].freeze

abort "#{EXTENSION} is missing: rake compile:sanitized builds it" unless File.exist?(EXTENSION)

library = `gcc -print-file-name=libasan.so`.strip
abort "libasan.so is missing: it comes with gcc" unless File.exist?(library)

files = ARGV.map { |file| File.expand_path(file) }
files = Dir[File.join(ROOT, "test/{#{FOLDERS.join(',')}}/**/*_test.rb")].sort if files.empty?
environment = {
  "LD_PRELOAD" => File.realpath(library),
  "ASAN_OPTIONS" => %w[detect_leaks=0 detect_stack_use_after_return=0 use_sigaltstack=0 handle_segv=0
                       abort_on_error=1 quarantine_size_mb=32].join(":"),
  "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1"
}
Dir.chdir(ROOT)
exit Folders.new(options: ["-I#{SANITIZED}", "-Ilib"]).add(files, environment: environment).run
