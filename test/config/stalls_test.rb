# frozen_string_literal: true

require "test_helper"
require "abaca"

# The settings of docs/stalls.md: what they are by default, and what they refuse.
class ConfigStallsTest < Minitest::Test
  def test_defaults
    config = Abaca::Config.new
    given = %i[stall_after spare_loops stall_report quantum].map { |name| config[name] }
    assert_equal [20, 8, 100, nil], given
  end

  def test_the_engine_is_told_seconds
    options = Abaca::Config::Stalls.engine_options(Abaca::Config.new({ stall_after: "7.5", spare_loops: "2" }))
    assert_equal({ stall_after: 0.0075, stall_report: 0.1, spare_loops: 2 }, options)
  end

  def test_zero_switches_off
    config = Abaca::Config.new({ stall_after: 0, spare_loops: 0, stall_report: 0, quantum: 0 })
    assert_equal [0.0, 0, 0.0, nil], %i[stall_after spare_loops stall_report quantum].map { |name| config[name] }
  end

  def test_a_setting_of_former_releases_is_said_to_be_over
    [0, 2].each do |value|
      warnings = Abaca::Config::NotDone.warnings(Abaca::Config.new({ gvl_wait_target: value }))
      assert_includes warnings.join, "`gvl_wait_target' has no effect: `stall_after' says"
    end
    refute_includes Abaca::Config::NotDone.warnings(Abaca::Config.new).join, "gvl_wait_target"
  end

  { stall_after: [-1, "soon", 60_001, nil], spare_loops: [-1, 65, "many", 1.5, :all],
    stall_report: [Float::NAN, :never], gvl_wait_target: [-0.1], quantum: [0.1, 60_001, "long"] }.each do |name, values|
    define_method("test_#{name}_refuses_what_makes_no_sense") do
      values.each do |value|
        error = assert_raises(Abaca::ConfigError, value.inspect) { Abaca::Config.new({ name => value }) }
        assert_includes error.message, name.to_s
      end
    end
  end

  def test_in_a_configuration_file
    dsl = Abaca::Config::DSL.new
    dsl.instance_eval("stall_after 10; spare_loops 0; stall_report 50; quantum 20", __FILE__,
                      __LINE__ - 1)
    expected = { stall_after: 10, spare_loops: 0, stall_report: 50, quantum: 20 }
    assert_equal expected, dsl.to_h
  end
end
