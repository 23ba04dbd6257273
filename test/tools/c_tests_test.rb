# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../c_tests"

# How C tests are compiled and played, for any compiler and on any machine.
class CTestsTest < Minitest::Test
  PASSING = <<~'C'
    #include <stdio.h>
    #include "one/one.h"
    int main(void) {
      printf("  left out: a_case: it needs more\n");
      printf("2 cases, 3 checks, 0 failed\n");
      return one() - 1;
    }
  C
  ROOM = { "ext/one/one.h" => "int one(void);\n",
           "ext/one/one.c" => "#include \"one/one.h\"\nint one(void) { return 1; }\n" }.freeze

  # Plays files in a folder of their own; yields what was printed, and whether all has passed.
  def play(files, build: {})
    Dir.mktmpdir do |root|
      ROOM.merge(files).each do |path, text|
        FileUtils.mkdir_p(File.dirname(File.join(root, path)))
        File.write(File.join(root, path), text)
      end
      result = nil
      build = CTests::Build.new(command: %w[gcc], flags: [], without: %w[http2 tls], deadline: 30, **build)
      tests = CTests.new(sources: "#{root}/ext", rooms: %w[one], tests: "#{root}/test/c", folder: "#{root}/tmp",
                         build: build)
      output, errors = capture_subprocess_io { result = tests.run }
      yield output, result, errors
    end
  end

  def test_what_passes_is_counted_and_what_is_left_out_is_named
    files = { "test/c/one/one_test.c" => PASSING, "test/c/tls/no_test.c" => "", "test/c/rb/ruby_test.c" => "",
              "test/c/tls/tls_absent_test.c" => PASSING }
    play(files) do |output, passed|
      assert passed, output
      assert_includes output, "left out: test/c/one/one_test.c: a_case: it needs more\n"
      assert_includes output, "left out: test/c/tls/no_test.c: libssl is not there\n"
      assert_includes output, "left out: test/c/rb/ruby_test.c: it is of rb/, and needs Ruby\n"
      assert_equal "2 programs, 4 cases, 6 checks, 0 failed", output.lines(chomp: true).last
    end
  end

  def test_a_failure_is_named_and_the_rest_runs
    files = { "test/c/one/a_test.c" => PASSING.sub("one() - 1", "1"), "test/c/one/b_test.c" => PASSING,
              "test/c/one/c_test.c" => "int main(void) { return 0; }\n", "test/c/one/d_test.c" => "no C" }
    play(files) do |output, passed, errors|
      refute passed
      lines = output.lines(chomp: true).last(4)
      assert_equal "1 programs, 2 cases, 3 checks, 3 failed", lines.shift
      assert_equal %w[a c d].map { |name| "failed: test/c/one/#{name}_test.c" }, lines
      assert_match(/d_test\.c:1/, errors)
    end
  end

  def test_nothing_is_no_success
    play({}) { |_, passed| refute passed }
  end

  def test_a_runner_stands_before_each_program
    runner = ["sh", "-c", 'echo "played here"; exec "$0"']
    play({ "test/c/one/one_test.c" => PASSING }, build: { runner: runner }) do |output, passed|
      assert passed, output
      assert_includes output, "played here\n"
    end
  end

  # The program's own count of its runs decides which one has the fault.
  def rare(fault, unlucky) = <<~C
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static int shared;
    static void *count(void *arg) { return shared++, arg; }
    static void *volatile lost;
    static void leak(void) { for (int i = 0; i < 9; i++) lost = malloc(10); }
    static void race(void) {
      pthread_t threads[2];
      for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count, NULL);
      for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    static void hang(void) { pause(); }
    static void check_failed(void) { printf("1 cases, 1 checks, 1 failed\\n"); exit(1); }
    int main(void) {
      void (*faults[])(void) = {leak, race, hang, abort, check_failed};
      FILE *runs = fopen(__FILE__ ".runs", "a");
      fputc('.', runs);
      fflush(runs);
      if (ftell(runs) - 1 == #{unlucky}) faults[#{%i[leak race hang abort check_failed].index(fault)}]();
      fclose(runs);
      printf("1 cases, 1 checks, 0 failed\\n");
      return 0;
    }
  C

  # A fault that shows in one of three runs makes that run red.
  def test_a_rare_fault
    { leak: ["-fsanitize=address", /LeakSanitizer/], race: ["-fsanitize=thread", /data race/],
      hang: ["-g", /It took longer than 3 s\.\n.*process \d+ .*rare_test/m], abort: ["-g", //],
      check_failed: ["-g", /1 failed/] }.each do |fault, (flag, words)|
      Dir.mktmpdir do |folder|
        unlucky = rand(3)
        runs = Array.new(3) { play_in(folder, rare(fault, unlucky), flag) }
        assert_equal Array.new(3) { |run| run != unlucky }, runs.map(&:first), "#{fault}: #{runs.map(&:last).join}"
        assert_match words, runs[unlucky].last
      end
    end
  end

  # Returns whether all has passed, and what was printed.
  def play_in(folder, program, flag)
    path = "#{folder}/test/c/one/rare_test.c"
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, program)
    build = CTests::Build.new(command: %w[gcc], flags: [flag], without: %w[http2 tls], deadline: 3)
    FileUtils.mkdir_p("#{folder}/ext")
    File.write("#{folder}/ext/one.c", "")
    tests = CTests.new(sources: folder, rooms: %w[ext], tests: "#{folder}/test/c", folder: "#{folder}/tmp",
                       build: build)
    passed = nil
    output, errors = capture_subprocess_io { passed = tests.run }
    [passed, output + errors]
  end
end
