# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"

# TERM at any moment of the boot: all end, and nothing is left.
class ClusterSignalsTest < Minitest::Test
  include ClusterCase

  COUNT = Integer(ENV.fetch("TERM_MOMENTS", "4"))
  # Bundler would call the signal an error in its Gemfile.
  PLAIN = { "RUBYOPT" => nil }.freeze

  def test_term_while_the_master_boots = sweep("workers 2")

  def test_term_while_workers_boot = sweep("workers 2\npreload_app! false")

  private

  def sweep(config)
    start = now
    command = start_plain(config)
    wait_for_workers(command, 2)
    boot = now - start
    assert_equal 0, finish(command)
    COUNT.times do |i|
      command = start_plain(config)
      sleep boot * (i + 1) / COUNT # the moment is the subject
      command.signal(:TERM)
      assert_ended command, command.wait, i
    end
  end

  def start_plain(config) = run_abaca(APP, "-b", "unix://socket", "--pidfile", "pid", config: config, env: PLAIN)

  # Before there is a handler, the signal does what it does in any program.
  def assert_ended(command, status, moment)
    assert status.exitstatus&.zero? || status.termsig == Signal.list["TERM"], "moment #{moment}: #{command.text}"
    %w[socket pid].each { |name| refute_path_exists File.join(@directory, name), "moment #{moment}" }
    refute_match(/error|warning|killed/i, command.text.lines.grep_v(/SignalException|\bfrom /).join)
  end
end
