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
  # Of what failed, said again in the end.
  LAST_LINES = 20

  # @param files [Array<String>] paths of tests
  # @param options [Array<String>] for Ruby
  # @param arguments [Array<String>] for Minitest
  # @param environment [Hash]
  def initialize(files, options: [], arguments: [], environment: {})
    @folders = parts(files)
    @command = [environment, RbConfig.ruby, "-w", *options, "-Itest", "-e",
                "$stdout.sync = true; ARGV.shift(Integer(ARGV.shift)).each { |file| require File.expand_path(file) }"]
    @arguments = arguments
    @counts = {}
    @failed = {} # name => Failures
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
          result = take(@folders[name])
          printing.synchronize { note(name, *result) }
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
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    output, status = Open3.capture2e(*@command, files.size.to_s, *files, *@arguments, stdin_data: "")
    [output, status, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start]
  end

  # A process that says nothing of its tests has tested nothing.
  def note(name, output, status, seconds)
    counts = output.scan(COUNTS).last
    @failed[name] = Failures.new(output, status) unless status.success? && counts
    @counts[name] = counts.map(&:to_i) if counts
    puts "", "test/#{name}: #{status.success? ? 'passed' : status} in #{seconds.round} s", output
    $stdout.flush
  end

  # Whoever sees no more than the end of the output has to find there what failed.
  def conclude
    totals = @counts.values.transpose.map(&:sum).zip(%w[runs assertions failures errors skips])
    puts "", totals.map { |pair| pair.join(" ") }.join(", ")
    room = LAST_LINES / [@failed.size, 1].max
    @failed.each { |name, failures| puts "failed: test/#{name}: #{failures.head}", failures.lines(room) }
    @failed.empty?
  end

  # What a process with failed tests had to say of them.
  class Failures
    # A test that failed: its name, its place, and the message up to the next one or Minitest's last lines.
    TEST = /^ +\d+\) (?:Failure|Error):\n(.+?)(?=\n\n^ +\d+\) |\n\n\d+ runs, |\z)/m
    CRASH = /^.*(?:\[BUG\]|ERROR: AddressSanitizer|runtime error:).*(?:\n.*){0,3}/
    BACKTRACE = /in [`'](?:\w+#)?(test_\w+)'/

    def initialize(output, status)
      @output = output.scrub
      @status = status
      @tests = @output.scan(TEST).flatten
    end

    # How the process ended, and the seed that gives its tests the same order.
    def head = [ended, @output[/--seed \d+/]].compact.join(", ")

    # At most so many lines, the same number for each test.
    def lines(room)
      texts = @tests.empty? ? [broken_off] : @tests
      each = [room / texts.size, 2].max
      lines = texts.flat_map { |text| text.lines(chomp: true).reject(&:empty?).first(each) }
      lines.first(room).map { |line| "  #{line[0, 300]}" }
    end

    private

    # A crash comes with a backtrace, which has the test's name.
    def broken_off
      crash = @output[CRASH] or return @output.lines.last(8).join
      [@output[BACKTRACE, 1], crash].compact.join("\n")
    end

    def ended = @status.exited? ? "#{@tests.size} tests" : @status.to_s[/SIG\w+/]
  end
end
