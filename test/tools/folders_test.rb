# frozen_string_literal: true

require "test_helper"
require_relative "../folders"

# What a run of all tests says of those that failed: continuous integration shows no more than its end.
class TestFoldersTest < Minitest::Test
  # Runs files with these contents, name => text, in a process of their own; returns [passed, output lines].
  def conclude(files, folders = Folders.new)
    Dir.mktmpdir do |folder|
      paths = files.map do |name, text|
        File.join(folder, name).tap { |path| FileUtils.mkdir_p(File.dirname(path)) && File.write(path, text) }
      end
      out, = capture_io { @passed = folders.add(paths, environment: Bundle::OUTER).run }
      [@passed, out.lines(chomp: true)]
    end
  end

  def source(name, body) = <<~RUBY
    require "minitest/autorun"
    class #{name} < Minitest::Test
      #{body}
    end
  RUBY

  # A test that fails until its file has run this often.
  def passes_in_run(number) = <<~RUBY
    def test_late
      runs = "\#{__dir__}/runs"
      File.write(runs, ".", mode: "a")
      assert_operator File.size(runs), :>=, #{number}, "not yet"
    end
  RUBY

  def again(times) = ENV["AGAIN"] = times

  def setup = @again = ENV.delete("AGAIN")

  def teardown = ENV["AGAIN"] = @again

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

  def test_what_fails_runs_again_alone
    again("1")
    second = source("Second", passes_in_run(2))
    passed, lines = conclude("a/second_test.rb" => second)
    assert passed
    assert_match(/^passed only alone: test.a: 1 tests, .*\n  Second#test_late .*\n  not yet\.$/, last_words(lines))
    passed, lines = conclude("a/second_test.rb" => second, "b/never_test.rb" => source("Never", "def test_no = flunk"))
    refute passed
    assert_match(/^passed only alone: test.a: .*^failed: test.b: 1 tests/m, last_words(lines))
  end

  def test_what_fails_runs_as_often_as_asked
    third = source("Third", passes_in_run(3))
    again("1")
    refute conclude("a/third_test.rb" => third).first
    again("2")
    passed, lines = conclude("a/third_test.rb" => third)
    assert passed
    assert_match(/^passed only alone: test.a: 1 tests, .*\n  Third#test_late .*\n  not yet\.$/, last_words(lines))
  end

  # The one that has passed does not: it would fail the second time.
  def test_only_the_tests_that_failed_run_again
    again("2")
    body = passes_in_run(2) + <<~RUBY
      def test_once = File.open("\#{__dir__}/once", File::CREAT | File::EXCL) { pass }
    RUBY
    passed, lines = conclude("a/mixed_test.rb" => source("Mixed", body))
    assert passed, lines.join("\n")
    assert_match(/^passed only again: test.a: 1 tests, .*\n  Mixed#test_late /, last_words(lines))
    assert_equal "2 runs, 2 assertions, 0 failures, 0 errors, 0 skips", lines.grep(Folders::COUNTS).last
  end

  def test_a_process_that_dies_runs_again_as_a_whole
    again("1")
    passed, lines = conclude("a/dying_test.rb" => source("Dying", <<~'RUBY'))
      def test_one
        path = "#{__dir__}/been"
        Process.kill(:KILL, $$) unless File.exist?(path) || File.write(path, "").positive?
      end

      def test_other = pass
    RUBY
    assert passed, lines.join("\n")
    assert_match(/^passed only alone: test.a: SIGKILL/, last_words(lines))
    assert_match(/^2 runs, /, lines.grep(Folders::COUNTS).last)
  end

  # Two that run together meet; one that runs alone begins when the former has ended, and lets no other begin.
  def test_turns
    Dir.mktmpdir do |folder|
      turns = -> { Turns.new("#{folder}/turns") }
      events = Queue.new
      gate = Queue.new
      first = Thread.new { turns.call.together { [events << :first, gate.pop] } }
      assert_equal :first, events.pop
      turns.call.together { events << :beside }
      alone = Thread.new { turns.call.alone { events << :alone } }
      assert(eventually { alone.stop? && locked?("#{folder}/turns.next") })
      last = Thread.new { turns.call.together { events << :last } }
      gate << true
      [first, alone, last].each { |thread| assert thread.join(60) }
      assert_equal(%i[beside alone last], Array.new(3) { events.pop })
    end
  end

  def locked?(path) = File.open(path) { |file| !file.flock(File::LOCK_EX | File::LOCK_NB) }

  def test_turns_without_a_folder
    turns = Turns.new("/nonexistent/turns")
    assert_equal :here, turns.together { :here }
    assert_equal :here, turns.alone { :here }
    assert_equal :here, Turns.new(nil).alone { :here }
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
    assert_gone Integer(lines.join[/child (\d+)/, 1])
  end

  def test_a_process_that_leaves_a_child
    passed, lines = conclude("a/leaving_test.rb" => source("Leaving", <<~RUBY))
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
