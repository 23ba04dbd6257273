# frozen_string_literal: true

require "test_helper"
require_relative "../../bench/support/bench"
require_relative "../../bench/servers/catalog"
require_relative "../../bench/servers/field"

# Benchmarks with --against: another checkout of Abaca in the rounds of this one.
class BenchAgainstTest < Minitest::Test
  Turn = Struct.new(:cpu)

  # A folder that looks like a compiled checkout.
  def checkout
    Dir.mktmpdir do |folder|
      library = File.join(folder, "lib", "abaca", "abaca.#{RbConfig::CONFIG.fetch("DLEXT")}")
      [File.join(folder, "exe", "abaca"), library, File.join(folder, "lib", "abaca", "version.rb")].each do |path|
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, 'VERSION = "0.0.9"')
      end
      yield Bench::Against.new(folder)
    end
  end

  # The rows of a comparison, in words. Each label comes with the figures of this checkout and of the other.
  def rows(figures)
    checkout do |against|
      turns = figures.flat_map do |label, pair|
        [label, against.label(label)].zip(pair.map { |list| list.map { |figure| Turn.new(figure) } })
      end
      against.render(turns.to_h, cpu: :cpu).lines.drop(2).map(&:split)
    end
  end

  def test_a_row_follows_each_of_abacas
    checkout do |against|
      settings = [["limit", {}], ["abaca", {}, "abaca fiber"], ["abaca", { threads: 5 }]]
      field = Bench::Field.new(settings: settings, only: nil, name: "x", against: against)
      other = against.name
      assert_equal ["limit", "abaca fiber", "#{other} fiber", "abaca 5 threads", "#{other} 5 threads"],
                   field.entries.map(&:label)
      assert_equal ["abaca", other], Bench::Catalog.pick(%w[abaca], against: against).map(&:name)
    end
  end

  def test_the_other_checkout_is_what_is_started
    checkout do |against|
      server = Bench::Catalog.pick(%w[abaca], against: against).last.tap(&:prepare)
      command = server.command(port: 1, size: 12)
      assert_includes command, "-I#{against.root}/lib"
      assert_includes command, "#{against.root}/exe/abaca"
      refute(command.any? { |word| word.start_with?("#{Bench::ROOT}/exe", "-I#{Bench::ROOT}") })
      assert_equal "0.0.9", server.version
    end
  end

  def test_ratios_are_those_of_the_rounds
    found = rows("puma" => [[1.0, 1.0]], "abaca x" => [[2.0, 9.0, 12.0], [4.0, 6.0, 10.0]])
    assert_equal [%w[abaca x: cpu 6 9 1.200 0.500 1.500 -]], found
  end

  def test_what_every_round_says
    found = rows("abaca a" => [[2.0, 3.0], [1.0, 2.0]], "abaca b" => [[1.0, 1.0], [2.0, 2.0]], "abaca c" => [[2], [1]])
    assert_equal %w[worse better -], found.map(&:last)
  end

  def test_a_round_that_one_of_them_misses_does_not_count
    found = rows("abaca" => [[3.0, 8.0], [2.0]], "abaca c" => [[0], [5]])
    assert_equal %w[abaca: cpu 2 3 1.500 1.500 1.500 -], found.first
    assert_equal "abaca c: cpu no round of both", found.last.join(" ")
  end

  def test_a_folder_without_a_build_is_refused
    %w[servers waiting relay modes hogs objects pages].each do |name|
      command = [RbConfig.ruby, "-Ilib", "bench/#{name}.rb", "--against", "/nowhere"]
      output, status = Open3.capture2e(*command, chdir: Bench::ROOT)
      refute_predicate status, :success?
      assert_equal "bench: no compiled Abaca to compare with: /nowhere/exe/abaca does not exist\n", output
    end
  end

  def test_a_comparison_replaces_no_run_without_one
    Dir.mktmpdir do |folder|
      { "1-ab" => {}, "2-ab" => { "against" => "abaca 1" }, "3-ab" => { "against" => "abaca 2" } }.each do |name, data|
        data = { "benchmark" => "ab", "machine" => {} }.merge(data)
        File.write(File.join(folder, "#{name}.json"), JSON.generate(data))
      end
      Bench::Results.prune(folder)
      assert_equal %w[1-ab.json 3-ab.json], Dir.children(folder).sort
    end
  end
end
