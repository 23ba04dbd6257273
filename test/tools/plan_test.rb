# frozen_string_literal: true

require "test_helper"
require_relative "../plan"

# In which ways the files run.
class PlanTest < Minitest::Test
  # Of each way: the mode, TLS, sanitizers, the portable build, the Ruby.
  WAYS = Plan::PAIRS.transform_values { |ways| ways.map(&:to_a) }.then do |pairs|
    modes = ->(ways, ruby) { ways.map { |mode, *rest| [mode[/\w+/], *rest, ruby] } }
    { true => :oldest, false => :newest }.flat_map do |oldest, ruby|
      modes.call([Plan::PLAIN.to_a, *pairs.fetch(oldest)], ruby)
    end
  end

  def test_any_two_values_meet
    columns = WAYS.transpose.map(&:uniq)
    columns.each_index.to_a.combination(2) do |one, other|
      met = WAYS.map { |way| way.values_at(one, other) }.uniq
      assert_empty columns[one].product(columns[other]) - met
    end
  end

  def test_tags_are_known
    plan = Plan.new(Dir[File.expand_path("../*/*_test.rb", __dir__)])
    assert_equal %w[modes portable rubies sanitized tls], plan.files.flat_map { |file| plan.tags(file) }.uniq.sort
  end

  # A file runs once in each way that it may notice.
  def test_a_file_runs_once_in_a_way
    Dir.mktmpdir do |folder|
      files = { "a" => "modes", "b" => "tls modes", "c" => "" }.map do |name, tags|
        File.join(folder, "#{name}_test.rb").tap { |path| File.write(path, "# also: #{tags}\n") }
      end
      ways = [Plan::Way.new("thread", false, false, false), Plan::Way.new("thread", true, false, false),
              Plan::Way.new("fiber", true, false, false)]
      taken = Taken.new([])
      Plan.new(files).add(taken, ways)
      assert_equal [[" in the mode thread", %w[a b]], [" in the mode thread over TLS", %w[b]], [" over TLS", %w[b]]],
                   taken.runs.sort
    end
  end

  # Stands for Folders.
  Taken = Struct.new(:runs) do
    def add(files, note:, environment:)
      runs << [note, files.map { |file| File.basename(file, "_test.rb") }] if environment
    end
  end
end
