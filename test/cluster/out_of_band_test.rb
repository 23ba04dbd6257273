# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/cluster_case"

# `out_of_band` in a worker: while it runs, the others have the new connections.
class ClusterOutOfBandTest < Minitest::Test
  include ClusterCase

  CONFIG = <<~RUBY
    workers 2
    before_worker_boot { |index| $index = index }
    out_of_band do
      next unless $index.zero?

      File.write("rests", Process.pid.to_s)
      sleep 0.01 until File.exist?("go")
    end
  RUBY

  def test_others_have_the_connections
    command = run_cluster(config: CONFIG)
    zero, one = booted(command).sort_by(&:index).map(&:pid)
    path = File.join(@directory, "rests")
    assert eventually { ask(command) && File.size?(path) }
    assert_equal zero, File.read(path).to_i
    assert_equal [one], Array.new(20) { ask(command).to_i }.uniq
    File.write(File.join(@directory, "go"), "")
    assert eventually { ask(command).to_i == zero }
    assert_equal 0, finish(command)
  end
end
