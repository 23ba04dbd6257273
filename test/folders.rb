# frozen_string_literal: true

require "etc"
require "open3"
require "rbconfig"

# Runs test files in a process for each folder, or part of a large one, two at once for each
# processor: tests of a server mostly wait. What one has to say comes in one piece when it is done, and
# the sum of all comes last. SHARDS=1 runs one after another.
class Folders
  # Files of a folder that one process runs.
  PART = 6
  # Those that take longest go first, so that none of them is left alone in the end.
  LONGEST = %w[fault http1 scheduler rack pool frameworks cli].freeze
  COUNTS = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/

  # @param files [Array<String>] paths of tests
  # @param options [Array<String>] for Ruby
  # @param arguments [Array<String>] for Minitest
  # @param environment [Hash]
  def initialize(files, options: [], arguments: [], environment: {})
    @folders = parts(files)
    @command = [environment, RbConfig.ruby, "-w", *options, "-Itest", "-e",
                "ARGV.shift(Integer(ARGV.shift)).each { |file| require File.expand_path(file) }"]
    @arguments = arguments
    @counts = {}
    @failed = []
  end

  # @return [Boolean] whether all have passed
  def run
    queue = Queue.new
    @folders.keys.sort_by { |name| [LONGEST.index(name[/\w+/]) || LONGEST.size, name] }.each { |name| queue << name }
    queue.close
    printing = Mutex.new
    Array.new(at_once) do
      Thread.new do
        while (name = queue.pop)
          output, status = take(@folders[name])
          printing.synchronize { note(name, output, status) }
        end
      end
    end.each(&:join)
    conclude
  end

  private

  # By name; the parts of a folder have numbers.
  def parts(files)
    files.group_by { |file| File.basename(File.dirname(file)) }.each_with_object({}) do |(folder, all), parts|
      slices = all.each_slice(PART).to_a
      slices.each.with_index(1) { |slice, i| parts[slices.one? ? folder : "#{folder} (#{i})"] = slice }
    end
  end

  def at_once = [Integer(ENV.fetch("SHARDS", 2 * Etc.nprocessors)), @folders.size].min.clamp(1, 8)

  def take(files)
    Open3.capture2e(*@command, files.size.to_s, *files, *@arguments, stdin_data: "")
  end

  # A process that says nothing of its tests has tested nothing.
  def note(name, output, status)
    counts = output.scan(COUNTS).last
    @failed << name unless status.success? && counts
    @counts[name] = counts.map(&:to_i) if counts
    puts "", "test/#{name}: #{status.success? ? 'passed' : status}", output
    $stdout.flush
  end

  def conclude
    totals = @counts.values.transpose.map(&:sum).zip(%w[runs assertions failures errors skips])
    puts "", totals.map { |pair| pair.join(" ") }.join(", ")
    puts "failed: #{@failed.map { |name| "test/#{name}" }.join(', ')}" unless @failed.empty?
    @failed.empty?
  end
end
