# frozen_string_literal: true

# Runs the tests that go over the wire against the extension as it is where there is nothing but POSIX 2008
# (`rake compile:portable`): ruby test/portable.rb [files].
require_relative "folders"
require_relative "support/portable_build"

ROOT = File.expand_path("..", __dir__)
FOLDERS = %w[http1 http2 tls rack proxies fault overload guest scheduler pool outbox page server].freeze

files = ARGV.map { |file| File.expand_path(file) }
files = Dir[File.join(ROOT, "test/{#{FOLDERS.join(",")}}/**/*_test.rb")].sort if files.empty?
Dir.chdir(ROOT)
exit Folders.new(options: %w[-Ilib]).add(files, environment: PortableBuild.environment).run
