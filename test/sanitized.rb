# frozen_string_literal: true

# Runs the tests that go over the wire, and a short stress run of each mode, against the extension built under
# AddressSanitizer and UndefinedBehaviorSanitizer (`rake compile:sanitized`): ruby test/sanitized.rb [files].
require_relative "folders"
require_relative "support/sanitizer"

ROOT = File.expand_path("..", __dir__)
FOLDERS = %w[http1 http2 tls rack proxies fault guest scheduler pool outbox page].freeze
STRESS = File.join(ROOT, "test/soak/sanitized_stress.rb")

files = ARGV.map { |file| File.expand_path(file) }
environment = Sanitizer.environment
Dir.chdir(ROOT)
tests = Folders.new(options: ["-I#{Sanitizer::FOLDER}", "-Ilib"])
if files.empty?
  tests.add(Dir[File.join(ROOT, "test/{#{FOLDERS.join(",")}}/**/*_test.rb")].sort, environment: environment)
  tests.add([STRESS], environment: environment.merge("TEST_DEADLINE" => "180"))
else
  tests.add(files, environment: environment)
end
exit tests.run
