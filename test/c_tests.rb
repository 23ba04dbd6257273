# frozen_string_literal: true

require "fileutils"
require "open3"
require "shellwords"
require "tempfile"
require_relative "at_once"
require_relative "expenses"
require_relative "stacks"
require_relative "../ext/abaca/probes"
require_relative "../ext/abaca/units"

# Compiles the rooms of the extension that know no Ruby, and plays their C tests, as one compiler makes them: this
# machine's, a cross-compiler with a machine to play on, or one for another C library. Where a library is missing, its
# room is compiled as absent. What is not played is named, with the reason.
class CTests
  # The last line of a program (test/c/check.h), and what it says of a case that cannot be asked here.
  COUNTS = /^(\d+) cases, (\d+) checks, (\d+) failed$/
  LEFT_OUT = /^  left out: /
  # Bash's `times`: its own processor time, and that of its children.
  TIMES = /^\d+m[\d.]+s \d+m[\d.]+s\n\d+m[\d.]+s \d+m[\d.]+s\n\z/

  # The libraries that rooms stand on: what pkg-config calls them, what says that they are there, and the tests that
  # need them.
  LIBRARIES = {
    "http2" => ["libnghttp2 >= 1.52", "AB_HAVE_HTTP2", %r{/http2/|http2_files_test}],
    "tls" => ["libssl libcrypto >= 3.0", "AB_HAVE_TLS", %r{/tls/|_tls_test}]
  }.freeze

  # A compiler, its flags, and where its programs run.
  # @!attribute command [Array<String>]
  # @!attribute flags [Array<String>]
  # @!attribute ruby_flags [Array<String>, nil] for the tests of rb/, which do without Ruby itself; nil: they need more
  # @!attribute runner [Array<String>] stands before a program
  # @!attribute packages [String, nil] where pkg-config looks; nil: where it always does
  # @!attribute without [Array<String>] keys of LIBRARIES
  # @!attribute portable [Boolean, nil] the rooms have nothing but POSIX 2008; the tests still look by all means
  # @!attribute deadline [Integer] seconds for a program that would hang
  Build = Struct.new(:command, :flags, :ruby_flags, :runner, :packages, :without, :portable, :deadline,
                     keyword_init: true)

  # @param sources [String] the extension's folder
  # @param rooms [Array<String>] its folders that are compiled
  # @param tests [String] the folder of tests
  # @param folder [String] where objects and programs go
  # @param build [Build]
  def initialize(sources:, rooms:, tests:, folder:, build:)
    @sources = sources
    @rooms = rooms
    @tests = tests
    @folder = folder
    @build = build
    @found = {}
    @left_out = []
    @failed = []
    @counts = [0, 0, 0, 0]
    @noting = Mutex.new
    @expenses = Expenses.new
  end

  # @param files [Array<String>, nil] tests; nil: all
  # @return [Boolean] true when all have passed
  def run(files = nil)
    tests = (files || Dir[File.join(@tests, "*/*_test.c")].sort).map { |test| File.expand_path(test) }
    before = children_time
    rooms = archive
    AtOnce.map(tests) { |test| take(test, rooms) }
    @expenses.add("compiling and linking", children_time - before - @expenses.total)
    sum_up
    @failed.empty? && @counts.first.positive?
  end

  # Compiles the rooms. Of an archive the linker reads what a program needs, which is most often a small part.
  #
  # @return [String] the path of their archive
  def archive
    FileUtils.mkdir_p(@folder)
    path = File.join(@folder, "rooms.a")
    objects = compile
    FileUtils.rm_f(path)
    ar = IO.popen([*@build.command, "-print-prog-name=ar"], &:read).chomp
    system(ar, "rcs", path, *objects) || abort("#{path} cannot be made.")
    path
  end

  # @param kind [Symbol] :cflags or :libs
  # @param names [Array<String>] keys of LIBRARIES
  # @return [Array<String>] the flags of the libraries that are there
  def library_flags(kind, names = LIBRARIES.keys)
    names.flat_map { |name| @found[[kind, name]] ||= @build.without.include?(name) ? [] : find(kind, name) }
  end

  # @return [Array<String>] flags that say what the system has, as extconf.rb finds them
  def system_flags
    @system_flags ||= Probes.flags_of(*@build.command, *@build.flags, portable: @build.portable)
  end

  private

  def children_time = Process.times.then { |times| times.cutime + times.cstime }

  def compile
    compiled = AtOnce.map(@rooms) do |room|
      object = File.join(@folder, "#{room.tr("/", "_")}.o")
      object if fresh?(object) || cc(*system_flags, "-MMD", "-c", unit_of(room), "-o", object)
    end
    failed = @rooms.zip(compiled).find { |_, object| object.nil? }
    failed ? abort("The room #{failed.first} does not compile.") : compiled
  end

  # Written only when a file has come or gone.
  def unit_of(room)
    files = Dir["#{room}/*.c", base: @sources].sort
    path = File.join(@folder, "#{room.tr("/", "_")}.c")
    text = Units.text(files)
    File.write(path, text) unless File.exist?(path) && File.read(path) == text
    path
  end

  # Not older than what the compiler has read for it, nor than the probes.
  def fresh?(object)
    list = object.sub(/o\z/, "d")
    return false unless File.exist?(object) && File.exist?(list)

    read = File.read(list).gsub("\\\n", " ").split.drop(1)
    made = File.mtime(object)
    [File.join(@sources, "probes.rb"), *read].all? { |path| File.exist?(path) && File.mtime(path) <= made }
  end

  # Without optimization, which takes longer than it saves in a test.
  def link(test, rooms)
    program = File.join(@folder, File.basename(test, ".c"))
    flags = @build.portable ? ["-D_GNU_SOURCE"] : system_flags
    cc(*flags, "-O0", *(@build.ruby_flags if of_ruby?(test)), "-I", @tests, test, rooms, "-lpthread", "-lm",
       *library_flags(:libs), "-o", program) && program
  end

  def cc(*words)
    system(*@build.command, *@build.flags, *library_flags(:cflags), "-I", @sources, *words)
  end

  # Without a library there is one test of its room, and none of what stands on it.
  def reason_against(test)
    LIBRARIES.each do |name, (library, _, tests)|
      next unless test.match?(tests)

      there = library_flags(:cflags, [name]).any?
      return "#{library[/\S+/]} is #{'not ' unless there}there" if there == test.end_with?("absent_test.c")
    end
    "it is of rb/, and needs Ruby" if of_ruby?(test) && !@build.ruby_flags
  end

  def of_ruby?(test) = test.include?("/rb/")

  def leave_out(test, reason)
    @left_out << "left out: #{name_of(test)}: #{reason}"
  end

  # What a program prints is shown when it has ended.
  def take(test, rooms)
    reason = reason_against(test)
    return @noting.synchronize { leave_out(test, reason) } if reason

    program = link(test, rooms)
    output, passed = program ? play(program) : ["", false]
    @noting.synchronize { note(test, output, passed) }
  end

  # What a program has printed, and whether it has passed. Bash tells what the program has computed.
  def play(program)
    Tempfile.create("program") do |file|
      pid = spawn({ "ASAN_OPTIONS" => "detect_leaks=1" }, "bash", "-c", '"$@"; status=$?; times; exit $status', "bash",
                  *@build.runner, program, in: File::NULL, %i[out err] => file.path, pgroup: true)
      status = wait(pid, file)
      output = Stacks.text(file.path)
      charge(program, output.slice!(TIMES))
      [output, status.success? && output.match?(COUNTS)]
    end
  end

  def wait(pid, file)
    reaper = Process.detach(pid)
    unless reaper.join(@build.deadline)
      File.write(file.path, "It took longer than #{@build.deadline} s.\n#{Stacks.of(Stacks.family(pid))}\n", mode: "a")
      Process.kill(:KILL, -pid)
    end
    reaper.value
  end

  def charge(program, times)
    seconds = times.to_s.lines.last.to_s.scan(/(\d+)m([\d.]+)s/).sum { |minutes, rest| (minutes.to_i * 60) + rest.to_f }
    @expenses.add(File.basename(program), seconds)
  end

  def note(test, output, passed)
    puts "#{name_of(test)}:", output
    return fail_by(test) unless passed

    @counts = @counts.zip([1, *output.match(COUNTS).captures.map(&:to_i)]).map(&:sum)
    output.each_line(chomp: true) { |line| leave_out(test, line.sub(LEFT_OUT, "")) if line.match?(LEFT_OUT) }
  end

  def fail_by(test)
    puts "#{name_of(test)} fails."
    @failed << name_of(test)
  end

  def sum_up
    puts @left_out.sort
    puts @expenses.lines
    programs, cases, checks = @counts
    puts "#{programs} programs, #{cases} cases, #{checks} checks, #{@failed.size} failed"
    puts @failed.sort.map { |name| "failed: #{name}" }
  end

  def name_of(test) = test.delete_prefix("#{File.expand_path('../..', @tests)}/")

  # Flags of a library, by pkg-config, and a definition that says that it is there; [] without it.
  def find(kind, name)
    library, define = LIBRARIES.fetch(name)
    environment = { "PKG_CONFIG_LIBDIR" => @build.packages }.compact
    flags, status = Open3.capture2e(environment, "pkg-config", library, "--#{kind}")
    return [] unless status.success?

    [*("-D#{define}" if kind == :cflags), *flags.shellsplit]
  rescue Errno::ENOENT
    []
  end
end
