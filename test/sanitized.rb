# frozen_string_literal: true

# Runs the tests that go over the wire, and a short stress run of each mode, against the extension built under
# AddressSanitizer and UndefinedBehaviorSanitizer (`rake compile:sanitized`): ruby test/sanitized.rb [files].
require_relative "folders"
require_relative "support/sanitizer"

ROOT = File.expand_path("..", __dir__)
FOLDERS = %w[http1 http2 tls rack proxies fault guest scheduler pool outbox page].freeze
# Of them, what would find nothing here: cases that the C tests play under the same sanitizers; clients and proxies of
# others, which send what clients of ours do; settings, signals and processes, which are Ruby's; a library of the tests'
# own, which is not built under sanitizers.
LEFT_OUT = %w[http1/cases http2/{cases,clients,grpc,restart}
              tls/{cable,cases,clients,keeper,load,process,sources} proxies/{haproxy,nginx}
              fault/{command,operator,slow_disk,term,trap} guest/command
              scheduler/interface4 pool/fiber_pool].freeze
STRESS = File.join(ROOT, "test/soak/sanitized_stress.rb")

files = ARGV.map { |file| File.expand_path(file) }
environment = Sanitizer.environment
Dir.chdir(ROOT)
tests = Folders.new(options: ["-I#{Sanitizer::FOLDER}", "-Ilib"])
if files.empty?
  all = Dir[File.join(ROOT, "test/{#{FOLDERS.join(",")}}/**/*_test.rb")]
  left_out = Dir[File.join(ROOT, "test/{#{LEFT_OUT.join(",")}}_test.rb")]
  tests.add((all - left_out).sort, environment: environment)
  tests.add([STRESS], environment: environment.merge("TEST_DEADLINE" => "180"))
else
  tests.add(files, environment: environment)
end
exit tests.run
