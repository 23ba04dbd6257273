# frozen_string_literal: true

require "etc"
require "rbconfig"
require "tempfile"
require_relative "expenses"
require_relative "stacks"
require_relative "support/test_build"

# Runs test files in a process for each folder, or part of a large one, two at once for each processor: tests of a
# server mostly wait. The output of each is printed in one piece when it is done; the most expensive files, the totals
# and the failures come last. SHARDS=1 runs the parts one after another.
class Folders
  # Test files per process, which loads what they share only once.
  PART = 8
  COUNTS = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
  # What one file took, as test_helper.rb prints it, and the whole process.
  CPU = /^CPU (\d+\.\d+) (.+)$/
  # What a process runs: it gets the number of files, the files, and Minitest's arguments. At the end, which a forked
  # child does not have, it tells what it and its children have computed.
  LOAD = <<~'RUBY'
    process = Process.pid
    at_exit { puts "CPU #{Process.times.sum.round(2)} process" if process == Process.pid }
    $stdout.sync = true
    ARGV.shift(Integer(ARGV.shift)).each { |file| require File.expand_path(file) }
  RUBY
  # The texts of the project are UTF-8, and a bare system has no locale that says so.
  LOCALE = { "LC_ALL" => "C.UTF-8" }.freeze
  # The failures that are repeated at the end.
  LAST_LINES = 20

  # @param options [Array<String>] for Ruby
  # @param arguments [Array<String>] for Minitest
  # @param deadline [Integer] seconds that one process may take. A test has a deadline of its own, which does not help
  #   when all of Ruby hangs
  # @param grace [Numeric] seconds that the children of a process get to end after it
  def initialize(options: [], arguments: [], deadline: 1200, grace: 15)
    @options = options
    @arguments = arguments
    @deadline = deadline
    @grace = grace
    @parts = {} # name => [environment, files]
    @counts = []
    @failed = {} # name => Failures
    @expenses = Expenses.new
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
    # Those with few files come last: the run ends when its last process does.
    @parts.sort_by { |_, (_, files)| -files.size }.each { |name, _| queue << name }
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

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # A process without a summary of tests has tested nothing.
  def passed?(output, status, group) = status.success? && output.match?(COUNTS) && !group.killed

  # The output is a file: a pipe would not end before the last child that has it.
  def take(environment, files)
    start = now
    Tempfile.create("tests") do |file|
      pid = spawn({ **LOCALE, **environment }, RbConfig.ruby, "-w", *@options, "-Itest", "-e", LOAD, files.size.to_s,
                  *files, *@arguments, in: File::NULL, %i[out err] => [file.path, "a"], pgroup: true)
      group = Group.new(pid)
      status = group.wait(@deadline, @grace)
      [Stacks.text(file.path), status, group, now - start]
    end
  end

  def note(name, output, status, group, seconds)
    counts = output.scan(COUNTS).last&.map(&:to_i)
    @counts << counts if counts
    passed = passed?(output, status, group)
    @failed[name] = Failures.new(output, status, group.killed) unless passed
    puts "", "#{name}: #{passed ? "passed" : group.killed || status} in #{seconds.round} s"
    puts output.gsub(/^CPU .*\n/, ""), group.stacks
    charge(name, output.scan(CPU).to_h { |cpu, file| [file, cpu.to_f] })
    $stdout.flush
  end

  # What no test took is the price of loading Ruby, the tests and what they need.
  def charge(name, files)
    mode = name[/ [^(\d].*\z/]
    rest = files.delete("process").to_f - files.values.sum
    files.each { |file, seconds| @expenses.add("#{file}#{mode}", seconds) }
    @expenses.add("loading", [rest, 0].max)
  end

  # The end of the output must say what failed, since often nothing else is seen.
  def conclude
    totals = @counts.transpose.map(&:sum).zip(%w[runs assertions failures errors skips])
    puts "", @expenses.lines, "", totals.map { |pair| pair.join(" ") }.join(", ")
    room = LAST_LINES / [@failed.size, 1].max
    @failed.each { |name, failures| puts "failed: #{name}: #{failures.head}", failures.lines(room) }
    @failed.empty?
  end

  # A process and its children, none of which outlives it.
  class Group
    # @return [String, nil] what had to be killed
    attr_reader :killed
    # @return [String, nil] what hung processes were doing
    attr_reader :stacks

    # @param pid [Integer] a process that leads a group
    def initialize(pid)
      @pid = pid
    end

    # Ends when none of them is left.
    #
    # @param deadline [Integer] seconds that the process may take
    # @param grace [Numeric] seconds that its children get to end after it
    # @return [Process::Status]
    def wait(deadline, grace)
      reaper = Process.detach(@pid)
      reaper.join(deadline) or kill("it took longer than #{deadline} s")
      limit = now + grace
      sleep 0.05 while members.any? && now < limit
      kill("it left children running") if members.any?
      reaper.value
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def kill(reason)
      hung = members
      @killed = "killed, since #{reason}: #{hung.map { |pid, name| "#{pid} (#{name})" }.join(", ")}"
      @stacks = Stacks.of(hung.map(&:first))
      Process.kill(:KILL, -@pid)
    end

    # Numbers and names of those that run: a zombie has ended.
    def members
      Dir["/proc/[0-9]*/stat"].filter_map do |path|
        pid, name, state, group = File.binread(path).match(/\A(\d+) \((.*)\) (\S) \d+ (\d+)/m)&.captures
        [pid.to_i, name] if group.to_i == @pid && state != "Z"
      rescue SystemCallError
        nil # it has ended meanwhile
      end
    end
  end

  # What a process with failed tests printed about them.
  class Failures
    # A test that failed: its name, its place, and the message up to the next one or Minitest's last lines.
    TEST = /^ +\d+\) (?:Failure|Error):\n(.+?)(?=\n\n^ +\d+\) |\n\n\d+ runs, |\z)/m
    CRASH = /^.*(?:#{TestBuild::REPORT}).*(?:\n.*){0,3}/
    BACKTRACE = /in [`'](?:\w+#)?(test_\w+)'/

    def initialize(output, status, killed)
      @output = output
      @status = status
      @killed = killed
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

    def ended = @killed || (@status.exited? ? "#{@tests.size} tests" : @status.to_s[/SIG\w+/])
  end
end
