# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "rbconfig"
require "timeout"
require "tmpdir"

# bin/bench guard: what a request costs, and that the guard notices when it costs more. What the files in guard/ add to
# the request path is compared with a baseline of this machine's own, so that this part runs on any.
class GuardTest < Minitest::Test
  GUARD = File.expand_path("../../bench/guard.rb", __dir__)
  ADDED = File.expand_path("guard", __dir__)

  def setup
    skip "valgrind is not installed" unless system("valgrind", "--version", out: File::NULL, err: File::NULL)
  rescue Errno::ENOENT
    skip "valgrind is not installed"
  end

  # Valgrind is slow.
  def deadline_seconds = 4 * super

  # What the guard says, and whether it is content.
  def guard(*arguments)
    Open3.popen2e(Bundle::OUTER, RbConfig.ruby, GUARD, *arguments) do |input, output, thread|
      input.close
      said = Timeout.timeout(deadline_seconds) { output.read }
      [said, thread.value]
    rescue Timeout::Error
      Process.kill(:TERM, thread.pid) # it ends what it has started
      raise
    end
  end

  # The guard with something added to each request.
  def guard_with(name)
    guard("--rows", "hello", "--alone", "--baseline", self.class.baseline(method(:take_baseline)), "--around",
          File.join(ADDED, "#{name}.rb"))
  end

  def take_baseline(path)
    said, status = guard("--rows", "hello", "--alone", "--baseline", path, "--update")
    assert status.success?, said
  end

  # One for all tests.
  def self.baseline(take)
    @baseline ||= begin
      folder = Dir.mktmpdir
      Minitest.after_run { FileUtils.rm_rf(folder) }
      File.join(folder, "baseline.json").tap(&take)
    end
  end

  # What has become more, by counter: the difference.
  def more(said) = said.scan(/^more: hello: ([a-z ]+) \S+ -> \S+, \+(\S+)/).to_h { |name, more| [name, more.to_f] }

  def assert_more(expected, name)
    said, status = guard_with(name)
    refute status.success?, said
    expected.each { |counter, number| assert_in_delta number, more(said)[counter], 0.05, said }
    assert_equal [*expected.keys, "instructions"].sort, more(said).keys.sort, said
    assert_match(/commit that says why/, said)
  end

  def test_a_request_costs_no_more_than_the_baseline_says
    said, status = guard
    assert status.success?, said
    puts "bin/bench guard: #{said[/^not compared.*/]}" if said.include?("not compared")
  end

  # In one run, since each has its own counter; GuardBaselineTest asks what one of them alone does.
  def test_an_object_a_malloc_and_a_system_call_more_fail
    assert_more({ "objects" => 1, "mallocs" => 1, "system calls" => 1 }, "one_of_each")
  end

  def test_another_kind_of_machine_is_not_compared
    Dir.mktmpdir do |folder|
      path = File.join(folder, "baseline.json")
      File.write(path, JSON.generate("Ruby 1.8.7" => { "rows" => {} }))
      said, status = guard("--rows", "parser", "--baseline", path)
      assert status.success?, said
      assert_match(/^not compared: no baseline for Ruby #{RUBY_VERSION}/, said)
    end
  end

  def test_a_row_that_there_is_not
    said, status = guard("--rows", "other")
    refute status.success?
    assert_match(/no row other; there are parser, outbox, hello/, said)
  end
end
