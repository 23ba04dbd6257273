# frozen_string_literal: true

require "test_helper"
require_relative "../../bench/support/bench"
require_relative "../../bench/servers/field"

# What a comparison of servers leaves for the results file.
class BenchFieldTest < Minitest::Test
  Turn = Struct.new(:cpu, :peak, keyword_init: true)

  # A turn may have figures for each of several pages.
  def test_turns_are_figures_and_no_text
    field = Bench::Field.new(name: "test", only: %w[abaca])
    field.turns["abaca"] << Turn.new(cpu: 1.5, peak: 2) << { "/page" => Turn.new(cpu: 3, peak: 4) }
    data = JSON.parse(Bench::Results.text(field.to_h))
    assert_equal [{ "cpu" => 1.5, "peak" => 2 }, { "/page" => { "cpu" => 3, "peak" => 4 } }], data["turns"]["abaca"]
  end
end
