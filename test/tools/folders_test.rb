# frozen_string_literal: true

require "test_helper"
require_relative "../folders"

# What a run of all tests says of those that failed: continuous integration shows no more than its end.
class TestFoldersTest < Minitest::Test
  # Bundler, which keeps Minitest from the plugins of other gems, would take half of the time.
  PLAIN = { "MT_NO_PLUGINS" => "1" }.freeze

  # Runs files with these contents, name => text, in a process of their own; returns [passed, output lines].
  def conclude(files, folders = Folders.new)
    Dir.mktmpdir do |folder|
      paths = files.map do |name, text|
        File.join(folder, name).tap { |path| FileUtils.mkdir_p(File.dirname(path)) && File.write(path, text) }
      end
      out, = capture_io { @passed = folders.add(paths, environment: PLAIN).run }
      [@passed, out.lines(chomp: true)]
    end
  end

  def source(name, body) = <<~RUBY
    require "minitest/autorun"
    class #{name} < Minitest::Test
      #{body}
    end
  RUBY

  # What follows on the sum of all counts.
  def last_words(lines) = lines.drop((lines.rindex { |line| Folders::COUNTS.match?(line) } || -1) + 1).join("\n")

  def test_all_have_passed
    passed, lines = conclude("a/good_test.rb" => source("Good", "def test_good = assert(true)"))
    assert passed
    assert_equal "1 runs, 1 assertions, 0 failures, 0 errors, 0 skips", lines.last
  end

  def test_the_last_lines_tell_what_failed
    passed, lines = conclude("a/bad_test.rb" => source("Bad", <<~RUBY), "b/good_test.rb" => source("Good", ""))
      def test_wrong = assert_equal([1, 2], 3, "what was meant")
      def test_broken = raise(KeyError, "broken\\n\\nin two parts")
      def test_right = assert(true)
    RUBY
    refute passed
    said = last_words(lines)
    assert_match(%r{^failed: test/a: 2 tests, --seed \d+$}, said)
    assert_match(/^  Bad#test_wrong \[.*bad_test.rb:3\]:\n  what was meant.\n  Expected: \[1, 2\]\n    Act.*: 3$/, said)
    assert_match(/^  Bad#test_broken:\n  KeyError: broken\n  in two parts$/, said)
    refute_match(%r{test_right|test/b:}, said)
  end

  # Neither what tests print, nor the locale of who runs them, need be UTF-8.
  def test_bytes_of_any_kind
    files = { "a/bad_test.rb" => source("Bad", 'def test_bytes = flunk("\xff\u00b5")'),
              "b/good_test.rb" => source("Good", "def test_good = assert(true)") }
    passed, lines = with_external(Encoding::US_ASCII) { conclude(files) }
    refute passed
    assert_match(/^2 runs, 2 assertions, 1 failures/, lines.join("\n"))
    assert_match(/^  Bad#test_bytes /, last_words(lines))
  end

  def with_external(encoding)
    before = Encoding.default_external
    ignore { Encoding.default_external = encoding }
    yield
  ensure
    ignore { Encoding.default_external = before }
  end

  # Ruby warns of a changed encoding.
  def ignore
    verbose = $VERBOSE
    $VERBOSE = nil
    yield
  ensure
    $VERBOSE = verbose
  end

  def test_many_failures_leave_room_for_each_other
    many = source("Many", <<~'RUBY')
      40.times { |i| define_method("test_#{i}") { flunk "much\n" * 30 } }
    RUBY
    one = source("One", 'def test_one = flunk("one of them")')
    _, lines = conclude("a/many_test.rb" => many, "b/one_test.rb" => one)
    said = last_words(lines)
    assert_operator said.lines.size, :<=, Folders::LAST_LINES + 2
    assert_match(/^failed: test.a: 40 tests, .*\n  Many#test_\d+ /, said)
    assert_match(/^failed: test.b: 1 tests, .*\n  One#test_one .*\n  one of them$/, said)
  end

  def test_a_process_that_dies
    _, lines = conclude("a/dying_test.rb" => source("Dying", <<~'RUBY'))
      def test_dying
        warn "#{__FILE__}: [BUG] no way", "ruby", "-- Ruby level backtrace --", "in `test_dying'"
        Process.kill(:KILL, $$)
      end
    RUBY
    said = last_words(lines)
    assert_match(%r{^failed: test/a: SIGKILL.*, --seed \d+$}, said)
    assert_match(/^  .*\[BUG\] no way$/, said)
    assert_match(/test_dying/, said)
  end

  # What fails in one of two runs is red in that one.
  def test_a_rare_failure
    { "assertion" => "flunk", "crash" => "Process.kill(:SEGV, $$)", "exit" => "exit!(0)" }.each do |kind, fault|
      Dir.mktmpdir do |state|
        unlucky = rand(2)
        text = source("Rare", <<~RUBY)
          def test_rare
            run = File.write("#{state}/runs", ".", mode: "a") && File.size("#{state}/runs") - 1
            #{fault} if run == #{unlucky}
            pass
          end
        RUBY
        results = Array.new(2) { conclude("a/rare_test.rb" => text).first }
        assert_equal Array.new(2) { |run| run != unlucky }, results, kind
      end
    end
  end

  def test_the_most_expensive_files_are_named
    lines = conclude("a/busy_test.rb" => "require 'test_helper'\n" + source("Busy", <<~RUBY)).last
      def test_busy
        limit = Process.times.sum + 0.3
        sleep 0 while Process.times.sum < limit
      end
    RUBY
    cpu = lines.grep(/ s of CPU .*busy_test.rb/).first.to_s[/\A +([\d.]+)/, 1]
    assert_operator cpu.to_f, :>=, 0.3, lines.join("\n")
  end

  # A zombie has no program.
  def assert_gone(pid)
    assert(eventually { !File.exist?("/proc/#{pid}/exe") }, "process #{pid} runs")
  end

  # Its own deadline is Ruby's, and does not help: nothing of Ruby runs any more.
  def test_a_process_that_hangs
    passed, lines = conclude({ "a/hanging_test.rb" => source("Hanging", <<~RUBY) }, Folders.new(deadline: 5))
      def test_hanging
        $stderr.puts "child \#{fork { sleep }}"
        Process.kill(:STOP, $$)
      end
    RUBY
    refute passed
    assert_match(/^failed: test.a: killed, since it took longer than 5 s: \d+ \(ruby.*\d+ \(ruby/, last_words(lines))
    child = Integer(lines.join("\n")[/child (\d+)/, 1])
    assert_match(/^process #{child} \(.*ruby/, lines.join("\n"))
    assert_gone child
  end

  def test_a_test_that_hangs
    passed, lines = conclude("a/hanging_test.rb" => "require 'test_helper'\n" + source("Hanging", <<~RUBY))
      def deadline_seconds = 1
      def wait_for_nothing = Queue.new.pop
      def test_hanging
        Thread.new { sleep }
        wait_for_nothing
      end
    RUBY
    refute passed
    said = lines.join("\n")
    assert_match(/^Hanging#test_hanging took longer than 1 s$/, said)
    assert_match(/wait_for_nothing/, said)
    assert_match(/^process \d+ \(.*ruby/, said)
    assert_match(/^failed: test.a: SIGKILL/, last_words(lines))
  end

  def test_a_process_that_leaves_a_child
    passed, lines = conclude({ "a/leaving_test.rb" => source("Leaving", <<~RUBY) }, Folders.new(grace: 0.5))
      def test_leaving = assert($stderr.puts("child \#{spawn("sleep 600")}").nil?)
    RUBY
    refute passed
    assert_match(/^failed: test.a: killed, since it left children running: \d+ \(sleep\)/, last_words(lines))
    assert_gone Integer(lines.join[/child (\d+)/, 1])
  end

  def test_a_file_that_does_not_load
    _, lines = conclude("a/wrong_test.rb" => "raise 'not loaded'")
    assert_match(/not loaded/, last_words(lines))
  end
end
