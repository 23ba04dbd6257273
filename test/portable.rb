# frozen_string_literal: true

# Runs the tests against the extension as it is where there is nothing but POSIX 2008 (`rake compile:portable`), all but
# those that ask nothing of it: ruby test/portable.rb [files]. What such a build lacks is skipped with its reason.
require_relative "folders"
require_relative "support/portable_build"

ROOT = File.expand_path("..", __dir__)
ELSEWHERE = %w[docs examples soak tools].freeze

files = ARGV.map { |file| File.expand_path(file) }
if files.empty?
  files = Dir[File.join(ROOT, "test/*/*_test.rb")].sort
  files.reject! { |file| ELSEWHERE.include?(File.basename(File.dirname(file))) }
end
Dir.chdir(ROOT)
exit Folders.new(options: %w[-Ilib]).add(files, environment: PortableBuild.environment).run
