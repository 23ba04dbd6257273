# frozen_string_literal: true

require "etc"
require "rbconfig"
require "tempfile"
require_relative "turns"

# Runs test files in a process for each folder, or part of a large one, two at once for each processor: tests of a
# server mostly wait. The output of each is printed in one piece when it is done, and the totals come last. SHARDS=1
# runs them one after another. With AGAIN=2, tests that failed run up to twice more in the end, since a machine that
# others use may have been too busy for them: one part after another, and the last time alone. With TEST_TURNS, other
# runs of tests pause meanwhile (Turns). The last lines name what passed only then.
class Folders
  # Files of a folder that one process runs.
  PART = 4
  # The slowest go first, so that none of them runs alone at the end.
  LONGEST = %w[frameworks plugins cluster soak fault restart rack scheduler pool threads server tools overload cli http1
               guest].freeze
  COUNTS = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
  CPU = /^(\d+) s of processor time$/
  # What a process runs: it gets the number of files, the files, and Minitest's arguments. At the end, which a forked
  # child does not have, it tells what it and its children have computed.
  LOAD = <<~'RUBY'
    process = Process.pid
    at_exit { puts "#{Process.times.sum.round} s of processor time" if process == Process.pid }
    $stdout.sync = true
    ARGV.shift(Integer(ARGV.shift)).each { |file| require File.expand_path(file) }
  RUBY
  # The failures that are repeated at the end.
  LAST_LINES = 20
  # The most parts that run again.
  AGAIN = 8
  # Seconds that the children of a process get to end after it.
  GRACE = 5

  # @param options [Array<String>] for Ruby
  # @param arguments [Array<String>] for Minitest
  # @param deadline [Integer] seconds that one process may take. A test has a deadline of its own, which does not help
  #   when all of Ruby hangs
  def initialize(options: [], arguments: [], deadline: 900)
    @options = options
    @arguments = arguments
    @deadline = deadline
    @parts = {} # name => [environment, files]
    @counts = {}
    @failed = {} # name => Failures
    @late = {} # how those that passed in the end did => the same
    @turns = Turns.new
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
          result = @turns.together { take(*@parts[name]) }
          printing.synchronize { note(name, *result) }
        end
      end
    end.each(&:join)
    (Integer(ENV.fetch("AGAIN", 0)) - 1).downto(0) { |left| run_again(alone: left.zero?) }
    conclude
  end

  private

  def at_once = [Integer(ENV.fetch("SHARDS", 2 * Etc.nprocessors)), @parts.size].min.clamp(1, 8)

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # More failures than this are no accident.
  def run_again(alone:)
    return if @failed.empty? || @failed.size > AGAIN

    failed = @failed
    @failed = {}
    if alone
      @turns.alone { failed.each { |name, failures| ask_again(name, failures) } }
    else
      failed.each { |name, failures| @turns.together { ask_again(name, failures) } }
    end
    failed.except(*@failed.keys).each { |name, failures| (@late[alone ? "alone" : "again"] ||= {})[name] = failures }
  end

  def ask_again(name, failures)
    note(name, *take(*@parts[name], only: failures.names), only: failures.names)
  end

  # The output is a file: a pipe would not end before the last child that has it. A test that runs tests has its turn
  # already. With names in `only`, other tests are left out.
  def take(environment, files, only: nil)
    start = now
    filter = ["-n", "/\\A(?:#{only.map { |name| Regexp.escape(name) }.join("|")})\\z/"] if only
    Tempfile.create("tests") do |file|
      pid = spawn({ Turns::VARIABLE => nil }.merge(environment), RbConfig.ruby, "-w", *@options, "-Itest", "-e", LOAD,
                  files.size.to_s, *files, *@arguments, *filter,
                  in: File::NULL, %i[out err] => [file.path, "a"], pgroup: true)
      group = Group.new(pid)
      status = group.wait(@deadline, GRACE)
      [file.read, status, group.killed, now - start]
    end
  end

  # A process without a summary of tests has tested nothing, nor has one that has left out any of `only`: of these, what
  # counts anew is how many have failed.
  def note(name, output, status, killed, seconds, only: nil)
    counts = output.scan(COUNTS).last&.map(&:to_i)
    passed = status.success? && counts && !killed && (only.nil? || counts.first == only.size)
    @failed[name] = Failures.new(output, status, killed) unless passed
    counts = [*@counts[name].first(2), *counts[2, 2], @counts[name].last] if counts && only
    @counts[name] = counts if counts
    end_of_it = passed ? "passed" : killed || status
    puts "", "#{name}: #{end_of_it} in #{seconds.round} s, #{output.scan(CPU).last&.first || '?'} s of CPU", output
    $stdout.flush
  end

  # The end of the output must say what failed, since often nothing else is seen.
  def conclude
    totals = @counts.values.transpose.map(&:sum).zip(%w[runs assertions failures errors skips])
    puts "", totals.map { |pair| pair.join(" ") }.join(", ")
    room = LAST_LINES / [@failed.size + @late.sum { |_, parts| parts.size }, 1].max
    @late.each do |how, parts|
      parts.each { |name, failures| puts "passed only #{how}: #{name}: #{failures.head}", failures.lines(room) }
    end
    @failed.each { |name, failures| puts "failed: #{name}: #{failures.head}", failures.lines(room) }
    @failed.empty?
  end

  # A process and its children, none of which outlives it.
  class Group
    # @return [String, nil] what had to be killed
    attr_reader :killed

    # @param pid [Integer] a process that leads a group
    def initialize(pid)
      @pid = pid
    end

    # Ends when none of them is left.
    #
    # @param deadline [Integer] seconds that the process may take
    # @param grace [Integer] seconds that its children get to end after it
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
      @killed = "killed, since #{reason}: #{members.map { |pid, name| "#{pid} (#{name})" }.join(", ")}"
      Process.kill(:KILL, -@pid)
    end

    # Numbers and names of those that run: a zombie has ended.
    def members
      Dir["/proc/[0-9]*/stat"].filter_map do |path|
        pid, name, state, group = File.read(path).match(/\A(\d+) \((.*)\) (\S) \d+ (\d+)/m)&.captures
        [pid, name] if group.to_i == @pid && state != "Z"
      rescue SystemCallError
        nil # it has ended meanwhile
      end
    end
  end

  # What a process with failed tests printed about them.
  class Failures
    # A test that failed: its name, its place, and the message up to the next one or Minitest's last lines.
    TEST = /^ +\d+\) (?:Failure|Error):\n(.+?)(?=\n\n^ +\d+\) |\n\n\d+ runs, |\z)/m
    CRASH = /^.*(?:\[BUG\]|ERROR: AddressSanitizer|runtime error:).*(?:\n.*){0,3}/
    BACKTRACE = /in [`'](?:\w+#)?(test_\w+)'/

    def initialize(output, status, killed)
      @output = output.scrub
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

    # The names of the tests that failed; nil when that is not all that went wrong.
    #
    # @return [Array<String>, nil]
    def names
      names = @tests.map { |text| text[/\A(.+?#.+?)(?: \[.*\])?:$/, 1] }
      failed = @output.scan(COUNTS).last.to_a[2, 2].to_a.sum(&:to_i)
      names if !@killed && names.any? && names.all? && names.size == failed
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
