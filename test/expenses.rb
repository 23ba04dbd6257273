# frozen_string_literal: true

# The processor time that a run of tests takes, by file. bin/test and .ci/run have a budget (CONTRIBUTING.md), and this
# is where somebody who exceeds it looks.
class Expenses
  # Files that are named.
  MOST = 30

  def initialize
    @seconds = Hash.new(0.0)
    @adding = Mutex.new
  end

  # @param name [String]
  # @param seconds [Float] of processor time, user and system
  def add(name, seconds)
    @adding.synchronize { @seconds[name] += seconds }
  end

  # @return [Float] seconds
  def total = @seconds.values.sum

  # @return [Array<String>] lines: the most expensive files, the most expensive first, and the sum of all
  def lines
    worst = @seconds.max_by(MOST) { |_, seconds| seconds }
    [*worst.map { |name, seconds| "#{seconds.round(1).to_s.rjust(7)} s of CPU  #{name}" },
     "#{total.round(1).to_s.rjust(7)} s of CPU in all #{@seconds.size}"]
  end
end
