# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "stress/scheduler_stress"

# The stress test, for a short time.
class SchedulerStressTest < Minitest::Test
  def test_everything_at_once
    assert_empty SchedulerStress.new(2).run
  end

  def test_everything_at_once_with_a_quantum
    assert_empty SchedulerStress.new(2, quantum: 0.002).run
  end
end
