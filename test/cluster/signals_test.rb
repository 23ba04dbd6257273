# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/cluster_case"

# TERM at any moment of the boot: all end, and nothing is left.
class ClusterSignalsTest < Minitest::Test
  include ClusterCase

  COUNT = Integer(ENV.fetch("TERM_MOMENTS", "4"))
  # Bundler would call the signal an error in its Gemfile.
  PLAIN = { "RUBYOPT" => nil }.freeze

  # Master and workers write into the new file.
  def test_hup_and_a_log_that_was_moved
    log = File.join(@directory, "log")
    command = run_abaca(APP, "-v", "--redirect-stdout", log, config: "workers 1\nworker_check_interval 0.5")
    assert(eventually { File.file?(log) && File.read(log).match?(BOOTED) })
    port = File.read(log)[%r{http://127.0.0.1:(\d+)}, 1].to_i
    File.rename(log, "#{log}.old")
    command.signal(:HUP)
    assert(eventually do
      connect(port).call(CLOSE)
      File.file?(log) && File.read(log).include?("GET / HTTP/1.1")
    end)
    assert_equal 0, finish(command)
    assert_match(/Goodbye/, File.read(log))
  end

  # Before it runs code of its own: what it unwinds is the master's.
  def test_term_at_the_first_moment_of_a_worker
    at_once = <<~RUBY
      Process.singleton_class.prepend(Module.new do
        def _fork = super.tap { |pid| Process.kill(:TERM, Process.pid) if pid.zero? && File.exist?("term") }
      end)
    RUBY
    command = run_cluster(APP, "-b", "unix://socket", "--pidfile", "pid", config: "#{at_once}workers 2")
    before = running(command)
    File.write(File.join(@directory, "term"), "")
    command.signal(:TTIN)
    command.wait_for(/Worker 2 .* was killed by TERM/)
    File.delete(File.join(@directory, "term"))
    wait_for_workers(command, 3)
    assert_equal before, running(command).first(2)
    %w[socket pid].each { |name| assert_path_exists File.join(@directory, name) }
    assert_equal 0, finish(command)
  end

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

  # Before there is a handler, the signal does what it does in any program; while Ruby itself boots, that is status 1
  # without a word, since 3.3, or with a complaint of RubyGems, before.
  def assert_ended(command, status, moment)
    ruby_boots = status.exitstatus == 1 && (command.text.empty? || command.text.include?("<internal:gem_prelude>"))
    assert status.exitstatus&.zero? || status.termsig == Signal.list["TERM"] || ruby_boots,
           "moment #{moment}: #{status}, #{command.text}"
    %w[socket pid].each { |name| refute_path_exists File.join(@directory, name), "moment #{moment}" }
    return if ruby_boots

    refute_match(/error|warning|killed/i, command.text.lines.grep_v(/SignalException|\bfrom /).join)
  end
end
