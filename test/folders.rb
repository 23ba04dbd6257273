# frozen_string_literal: true

require "etc"
require "open3"
require "rbconfig"

# Runs test files in a process for each folder, or part of a large one, two at once for each processor: tests of a
# server mostly wait. The output of each is printed in one piece when it is done, and the totals come last. SHARDS=1
# runs them one after another.
class Folders
  # Files of a folder that one process runs.
  PART = 3
  # The slowest go first, so that none of them runs alone at the end.
  LONGEST = %w[fault rack scheduler pool threads overload frameworks http1 cli guest soak].freeze
  COUNTS = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
  # What a process runs: it gets the number of files, the files, and Minitest's arguments.
  LOAD = "$stdout.sync = true; ARGV.shift(Integer(ARGV.shift)).each { |file| require File.expand_path(file) }"
  # The failures that are repeated at the end.
  LAST_LINES = 20

  # @param options [Array<String>] for Ruby
  # @param arguments [Array<String>] for Minitest
  def initialize(options: [], arguments: [])
    @options = options
    @arguments = arguments
    @parts = {} # name => [environment, files]
    @counts = {}
    @failed = {} # name => Failures
  end

  # Adds files to what is to run; the same files may come again with another environment and another note.
  #
  # @param files [Array<String>] paths of tests
  # @param note [String] follows on the names of these parts
  # @param environment [Hash]
  # @return [self]
  def add(files, note: "", environment: {})
    files.group_by { |file| File.basename(File.dirname(file)) }.each do |folder, all|
      slices = all.each_slice(PART).to_a
      slices.each.with_index(1) do |slice, i|
        @parts["test/#{folder}#{" (#{i})" unless slices.one?}#{note}"] = [environment, slice]
      end
    end
    self
  end

  # @return [Boolean] whether all have passed
  def run
    queue = Queue.new
    @parts.keys.sort_by { |name| LONGEST.index(name[%r{/(\w+)}, 1]) || LONGEST.size }.each { |name| queue << name }
    queue.close
    printing = Mutex.new
    Array.new(at_once) do
      Thread.new do
        while (name = queue.pop)
          result = take(*@parts[name])
          printing.synchronize { note(name, *result) }
        end
      end
    end.each(&:join)
    conclude
  end

  private

  def at_once = [Integer(ENV.fetch("SHARDS", 2 * Etc.nprocessors)), @parts.size].min.clamp(1, 8)

  def take(environment, files)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    output, status = Open3.capture2e(environment, RbConfig.ruby, "-w", *@options, "-Itest", "-e", LOAD,
                                     files.size.to_s, *files, *@arguments, stdin_data: "")
    [output, status, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start]
  end

  # A process without a summary of tests has tested nothing.
  def note(name, output, status, seconds)
    counts = output.scan(COUNTS).last
    @failed[name] = Failures.new(output, status) unless status.success? && counts
    @counts[name] = counts.map(&:to_i) if counts
    puts "", "#{name}: #{status.success? ? 'passed' : status} in #{seconds.round} s", output
    $stdout.flush
  end

  # The end of the output must say what failed, since often nothing else is seen.
  def conclude
    totals = @counts.values.transpose.map(&:sum).zip(%w[runs assertions failures errors skips])
    puts "", totals.map { |pair| pair.join(" ") }.join(", ")
    room = LAST_LINES / [@failed.size, 1].max
    @failed.each { |name, failures| puts "failed: #{name}: #{failures.head}", failures.lines(room) }
    @failed.empty?
  end

  # What a process with failed tests printed about them.
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

    # At most this many lines, the same number for each test.
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
