# frozen_string_literal: true

require "test_helper"
require_relative "../../bench/support/bench"

# What benchmarks leave in bench/results: a line for each round, and of each part the newest run of a clean tree.
class BenchResultsTest < Minitest::Test
  Results = Bench::Results
  FOLDER = File.expand_path("../../bench/results", __dir__)

  def write(folder, name, data, dirty: false)
    data = { "benchmark" => name[/[a-z]+/], "machine" => { "uncommitted_changes" => dirty } }.merge(data)
    File.write(File.join(folder, "#{name}.json"), JSON.pretty_generate(data))
  end

  def kept(folder) = Dir.children(folder).map { |name| name.delete_suffix(".json") }.sort

  def test_a_round_is_a_line
    rounds = [{ "p50" => 1, "all" => [1, 2] }, { "p50" => 3, "all" => [] }]
    data = { "benchmark" => "x", "turns" => { "abaca" => rounds }, "absent" => {} }
    text = Results.text(data)
    assert_equal data, JSON.parse(text)
    lines = text.lines.map { |line| line.strip.delete_suffix(",") }
    assert_empty rounds.map { |round| JSON.generate(round) } - lines
  end

  def test_the_newest_clean_one_stays
    Dir.mktmpdir do |folder|
      %w[1-ab 2-ab 3-idle].each { |name| write(folder, name, { "rounds" => 1 }) }
      write(folder, "4-ab", {}, dirty: true)
      Results.prune(folder)
      assert_equal %w[2-ab 3-idle], kept(folder)
      assert_equal 1, JSON.parse(File.read(File.join(folder, "2-ab.json"))).fetch("rounds")
    end
  end

  def test_a_part_that_no_newer_run_has_keeps_its_run
    Dir.mktmpdir do |folder|
      rows = ->(*names) { { "rows" => names.map { |name| { "row" => name } } } }
      write(folder, "1-modes", rows["hog1"])
      write(folder, "2-modes", rows["hog1", "term"])
      write(folder, "3-modes", rows["hog1"])
      write(folder, "4-serializer", { "parts" => { "calls" => {} } })
      write(folder, "5-serializer", { "parts" => { "calls" => {} } })
      Results.prune(folder)
      assert_equal %w[2-modes 3-modes 5-serializer], kept(folder)
    end
  end

  # The run of all benchmarks is written last.
  def test_a_run_of_all_keeps_what_it_names
    Dir.mktmpdir do |folder|
      of_all = ->(*names) { { "scenarios" => names.map { |name| { "file" => name && "bench/results/#{name}.json" } } } }
      %w[1-ab 2-idle 4-ab 5-idle 7-ab].each { |name| write(folder, name, {}) }
      write(folder, "3-all", of_all["1-ab", "2-idle"])
      write(folder, "6-all", of_all["4-ab", "5-idle", nil])
      Results.prune(folder)
      assert_equal %w[4-ab 5-idle 6-all 7-ab], kept(folder)
    end
  end

  def test_the_runs_of_all_are_whole
    runs = Dir[File.join(FOLDER, "*-all.json")].map { |path| JSON.parse(File.read(path)) }
    refute_empty runs
    names = runs.flat_map { |run| run.fetch("scenarios").filter_map { |one| one["file"] } }
    assert_empty names.reject { |name| File.exist?(File.join(FOLDER, File.basename(name))) }
  end

  # Whoever adds a run calls `rake results` before the commit.
  def test_the_folder_is_pruned
    Dir.mktmpdir do |folder|
      FileUtils.cp_r("#{FOLDER}/.", folder)
      before = Dir.children(folder).sort.to_h { |name| [name, File.read(File.join(folder, name))] }
      refute_empty before
      Results.prune(folder)
      assert_equal before, Dir.children(folder).sort.to_h { |name| [name, File.read(File.join(folder, name))] }
    end
  end
end
