# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "rbconfig"
require_relative "../../bench/support/bench"
require_relative "../../bench/all/scenarios"
require_relative "../../bench/all/suite"

# `bin/bench all`: what it runs, for how long, and what becomes of it if something fails.
class BenchAllTest < Minitest::Test
  Scenarios = Bench::Scenarios

  # A scenario that runs this Ruby code.
  Fake = Struct.new(:name, :code, :seconds, keyword_init: true) do
    def budget(quick:) = quick ? seconds : seconds * 2
    def command(**) = [RbConfig.ruby, "-rjson", "-e", code]
  end

  def fake(name, code, seconds: 20) = Fake.new(name: "test-#{name}", code: code, seconds: seconds)

  # Code of a benchmark that has written these rows: name => why it has no figure.
  def writes(folder, rows, dirty: false)
    rows = rows.map do |name, reason|
      { row: "x", name: name, ours: name == "abaca", reason: reason, turns: 2, disturbed: [1] }.compact
    end
    path = File.join(folder, "#{rows.hash}.json")
    File.write(path, JSON.generate({ machine: { uncommitted_changes: dirty }, account: { rows: rows } }))
    "puts 'written to #{path}'"
  end

  # What becomes of the scenarios: the data, the table, and whether all is well.
  def outcome(*scenarios, quick: true, limit: 60)
    suite = Bench::Suite.new(scenarios: scenarios, quick: quick, limit: limit, progress: StringIO.new)
    suite.run
    [suite.to_h[:scenarios], suite.render, suite.good?]
  end

  def test_every_scenario_has_a_budget_and_all_of_them_fit
    { true => Scenarios::QUICK, false => Scenarios::FULL }.each do |quick, limit|
      budgets = Scenarios::ALL.map { |scenario| scenario.budget(quick: quick) }
      assert(budgets.all?(&:positive?))
      assert_operator budgets.sum, :<=, limit
    end
    assert_equal [300, 2400], [Scenarios::QUICK, Scenarios::FULL]
    assert_empty(Scenarios::ALL.map(&:name).tally.select { |_, times| times > 1 })
  end

  def test_every_benchmark_is_run_or_its_absence_has_a_reason
    names = Dir.children(Bench::DIR).grep(/\.rb\z/).map { |name| File.basename(name, ".rb") }
    run = Scenarios::ALL.map(&:benchmark)
    assert_empty names - run - Scenarios::LEFT_OUT.keys
    assert_empty run - names
    assert_empty run & Scenarios::LEFT_OUT.keys
  end

  # Asks each scenario's benchmark for help, after its arguments: with those of a quick run as it will be run, with the
  # others in a child of this process, which has loaded most of it.
  def assert_understood(quick)
    commands = Scenarios::ALL.map { |scenario| scenario.command(quick: quick, ruby: nil) }
    commands.map { |command| Thread.new { yield(*command, "--help") } }.map(&:value).each do |output, status|
      assert_predicate status, :success?, output
      assert_includes output, "usage: bin/bench"
    end
  end

  def test_their_quick_arguments_are_understood = assert_understood(true) { |*command| Open3.capture2e(*command) }

  def test_their_arguments_are_understood
    assert_understood(false) do |_ruby, _lib, file, *words|
      IO.pipe do |reader, writer|
        pid = fork { load_in_child(file, words, writer) }
        writer.close
        [reader.read, Process.wait2(pid).last]
      end
    end
  end

  def load_in_child(file, words, output)
    [$stdout, $stderr].each { |stream| stream.reopen(output) }
    ARGV.replace(words)
    load(file)
  rescue SystemExit => e
    $stdout.flush
    exit!(e.status)
  ensure
    exit!(1) # nor do the tests begin again
  end

  def test_another_ruby_is_handed_on
    commands = Scenarios::ALL.map { |scenario| scenario.command(quick: false, ruby: "3.4") }
    commands.each { |command| assert_equal %w[--ruby 3.4], command.last(2) }
    helps = commands.map { |command| command[2] }.uniq.to_h { |file| [file, File.read(file)] }
    helps.each { |file, text| assert_match(/main\.rub(y|ies)\b/, text, file) }
  end

  def test_a_run_goes_on_after_a_failure
    Dir.mktmpdir do |folder|
      scenarios, table, good = outcome(
        fake("hangs", "sleep", seconds: 1), fake("dies", "abort 'bench: no wrk'"),
        fake("silent", "puts 'nothing'"), fake("works", writes(folder, { "abaca" => nil, "peer" => "does not start" }))
      )
      assert_equal %w[failed failed failed ran], scenarios.map { |one| one[:state] }
      assert_match(/stopped after 1 s/, scenarios[0][:reason])
      assert_match(/no wrk/, scenarios[1][:reason])
      assert_equal({ "x: peer" => "does not start" }, scenarios[3][:absent])
      assert_equal [4, 2], scenarios[3].values_at(:turns, :disturbed)
      assert_includes table, "test-works: x: peer: does not start"
      assert_match(/^test-hangs +failed/, table)
      refute good
    end
  end

  def test_it_is_good_if_all_rows_of_abaca_ran
    Dir.mktmpdir do |folder|
      assert outcome(fake("works", writes(folder, { "abaca" => nil, "peer" => "does not start" }))).last
      scenarios, _, good = outcome(fake("misses", writes(folder, { "abaca" => "hangs" })),
                                   fake("peers", writes(folder, { "peer" => nil })))
      assert_equal ["x, abaca: hangs", "no row of Abaca's"], scenarios.map { |one| one[:reason] }
      refute good
    end
  end

  def test_a_tree_that_changes_meanwhile_is_a_failure
    Dir.mktmpdir do |folder|
      code = writes(folder, { "abaca" => nil }, dirty: true)
      assert outcome(fake("look", code)).last
      scenarios, _, good = outcome(fake("claim", code), quick: false)
      assert_equal "the tree has changed meanwhile", scenarios.first[:reason]
      refute good
    end
  end

  def test_what_one_leaves_is_for_the_next
    Dir.mktmpdir do |folder|
      slow = fake("slow", "sleep 2; #{writes(folder, { "abaca" => nil })}", seconds: 1)
      states = outcome(slow, fake("brief", "abort", seconds: 10), slow).first.map { |one| one[:state] }
      assert_equal %w[failed failed ran], states
      stopped = outcome(fake("brief", "abort", seconds: 3), fake("hangs", "sleep", seconds: 1), slow).first
      assert_match(/stopped after [34] s/, stopped[1][:reason])
      assert_match(/stopped after 1 s/, stopped[2][:reason])
    end
  end

  def test_the_time_of_all_is_limited
    scenarios, = outcome(fake("slow", "sleep", seconds: 10), fake("late", "exit"), limit: Bench::Suite::LEAST + 0.2)
    assert_match(/stopped after 3 s/, scenarios[0][:reason])
    assert_equal "no time is left for it", scenarios[1][:reason]
  end

  # A copy of the benchmarks in a folder of its own, and what `all` says there.
  def elsewhere
    skip "no git" unless system("git", "--version", out: File::NULL, err: File::NULL)

    Dir.mktmpdir do |folder|
      sources = Dir.children(Bench::DIR) - %w[results]
      FileUtils.mkdir_p(File.join(folder, "bench"))
      FileUtils.cp_r(sources.map { |name| File.join(Bench::DIR, name) }, File.join(folder, "bench"))
      command = [RbConfig.ruby, "bench/all.rb", "--only", "none"]
      yield folder, ->(*words) { Open3.capture2e(*command, *words, chdir: folder) }
    end
  end

  def test_a_tree_with_changes_is_refused
    elsewhere do |folder, ask|
      system("git init -q . && git add -A && git -c user.name=a -c user.email=a@a commit -q -m x", chdir: folder)
      assert_equal "bench: no such scenario: none\n", ask.call.first
      File.write(File.join(folder, "bench", "new.rb"), "")
      output, status = ask.call
      assert_match(/the tree has changes: commit them/, output)
      refute_predicate status, :success?
      assert_match(/for a look\nbench: no such scenario/, ask.call("--quick").first)
    end
  end

  # Nobody knows what is measured there.
  def test_a_tree_of_which_git_says_nothing_is_refused
    elsewhere do |_, ask|
      output, status = ask.call
      assert_equal "bench: git does not say what this tree is: take a look with --quick\n", output
      refute_predicate status, :success?
      assert_match(/for a look\nbench: no such scenario/, ask.call("--quick").first)
    end
  end
end
