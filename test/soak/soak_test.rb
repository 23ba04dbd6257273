# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require_relative "verdict"

# bin/soak in short: that it runs, and that it notices what it is there for.
class SoakTest < Minitest::Test
  FLAT = { resident: 50_000_000, descriptors: 12, threads: 3, fibers: 20, slots: 60_000 }.freeze

  # Samples whose figures grow by `steps`, from sample to sample.
  def samples(count = 12, **steps)
    Array.new(count) do |nth|
      Soak::Sample.new(seconds: nth, **FLAT.to_h { |name, value| [name, value + (nth * steps.fetch(name, 0))] })
    end
  end

  def verdict(samples = samples(), errors: 0, death: nil) = Soak::Verdict.new(samples:, errors:, death:)

  def soak(*options)
    words = [RbConfig.ruby, *$LOAD_PATH.grep_v(%r{/test\z}).map { |path| "-I#{path}" },
             File.join(__dir__, "run.rb"), "--seconds", "6", "--every", "1", "--rate", "60", *options]
    Open3.capture2e(*words)
  end

  def test_flat_is_good
    assert_predicate verdict, :passed?
  end

  def test_each_figure_that_grows_is_a_complaint
    { resident: 1_000_000, descriptors: 1, threads: 1, fibers: 3, slots: 8_000 }.each do |name, step|
      found = verdict(samples(**{ name => step * 3 })).complaints
      assert_equal [Soak::Verdict::TOLERANCE.fetch(name).first], found.map { |complaint| complaint.split.first }
    end
  end

  # Caches fill and the heap finds its size.
  def test_growth_at_the_beginning_is_none
    early = samples.each_with_index.map { |sample, nth| sample.dup.tap { |s| s.resident -= 20_000_000 if nth < 4 } }
    assert_predicate verdict(early), :passed?
  end

  def test_wrong_answers_and_a_death
    assert_equal ["3 answers were wrong"], verdict(errors: 3).complaints
    assert_equal ["the server has ended"], verdict(death: "the server has ended").complaints
  end

  def test_too_few_samples
    assert_match(/5 samples are too few/, verdict(samples(5)).complaints.first)
  end

  # Ruby 3.1 crashes where moving is switched on while a long collection marks.
  def test_objects_move_only_from_the_next_collection_on
    output, status = Open3.capture2e(RbConfig.ruby, "-r", File.join(__dir__, "collections.rb"), "-e", <<~RUBY)
      junk = []
      GC.start
      5_000_000.times { |i| junk[i % 40_000] = [i.to_s]; break if GC.latest_gc_info(:state) == :marking }
      Soak::Collections.begin
      200.times.map { |i| Thread.new { sleep 0.001; Array.new(200) { |j| [i, j].to_s }.join } }.each(&:join)
      10.times { GC.start }
      puts "fine"
    RUBY
    assert_predicate status, :success?, output
    assert_equal "fine\n", output
  end

  def test_a_short_soak
    %w[fiber thread].each do |mode|
      output, status = soak("--mode", mode)
      assert_predicate status, :success?, output
      assert_match(/^#{mode}: flat$/, output)
      assert_equal 6, output.scan(/^ +\d+ +\d+ +0 +\d+\.\d/).size, output
    end
  end

  def test_an_app_that_leaks_is_noticed
    output, status = soak("--leak")
    assert_equal 1, status.exitstatus, output
    assert_match(/^descriptors grow: /, output)
    assert_match(/^fiber: NOT GOOD$/, output)
  end
end
