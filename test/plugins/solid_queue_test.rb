# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"
require "support/framework_case"

# `plugin :solid_queue` as Rails has it in config/puma.rb, with the gem, on SQLite: test/frameworks/jobs.
class SolidQueueTest < Minitest::Test
  include ClusterCase

  APP = File.join(FrameworkCase::FOLDER, "jobs/config.ru")
  # What Rails 8 generates, and a port.
  CONFIG = <<~RUBY
    threads_count = ENV.fetch("RAILS_MAX_THREADS", 3)
    threads threads_count, threads_count
    bind "tcp://127.0.0.1:0"
    plugin :tmp_restart
    plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]
    pidfile ENV["PIDFILE"] if ENV["PIDFILE"]
  RUBY
  QUEUE = /\Asolid-queue-/

  def teardown
    left = queue_processes
    assert_empty left, "Solid Queue is left"
  ensure
    left&.each { |pid| Process.kill(:KILL, pid) if alive?(pid) }
    super
  end

  def serve(config = CONFIG)
    path = File.join(@directory, "puma.rb")
    File.write(path, config)
    # As started by a shell: the tests run in a bundle of their own.
    env = { "FOLDER" => @directory, "SOLID_QUEUE_IN_PUMA" => "1", "BUNDLER_ORIG_BUNDLE_GEMFILE" => nil,
            **FrameworkCase.environment(File.dirname(APP)) }
    start_abaca("-C", path, APP, env:).tap { |command| command.wait_for(/Listening/, within: 40) }
  end

  # Those of this test: supervisors, workers and dispatchers.
  def queue_processes
    Dir.children("/proc").grep(/\A\d+\z/).select do |pid|
      title_of(pid).match?(QUEUE) && File.binread("/proc/#{pid}/environ").include?(@directory)
    rescue SystemCallError
      false # it is gone
    end.map(&:to_i)
  end

  def title_of(pid) = File.binread("/proc/#{pid}/cmdline")

  # Children of a process that run jobs.
  def supervisors(pid)
    File.read("/proc/#{pid}/task/#{pid}/children").split.select { |child| title_of(child).match?(QUEUE) }.map(&:to_i)
  end

  # The process that has run a job, once it is done.
  def run_job(command, text)
    request = CLOSE.sub("/", "/jobs/#{text}")
    assert_equal "enqueued", connect(command.port).call(request).body
    notes = File.join(@directory, "notes")
    File.write(notes, "", mode: "a")
    line = eventually { File.readlines(notes).grep(/\A#{text} \d+\n/).first } or flunk command.text
    Integer(line.split.last)
  end

  # In processes of their own, which end with the server, and before it restarts. There is no stand-in, which
  # plugins_test.rb has: Rails boots twice here, not three times.
  def test_jobs_beside_a_server_that_restarts
    command = serve("#{CONFIG}\nrestart_overlap false")
    worker = run_job(command, "before")
    first, = supervisors(command.pid)
    assert_includes queue_processes - [first], worker
    command.signal(:USR2)
    command.wait_for(/^Stopping Solid Queue.*^\* Restarting: /m)
    refute alive?(first)
    refute_equal worker, run_job(command, "after")
    assert_equal 1, supervisors(command.pid).size
    assert_equal 0, finish(command)
    assert_match(/Stopping Solid Queue\.\.\.\n- Goodbye!\n\z/, command.text)
  end

  def test_jobs_on_threads_of_the_master
    command = serve("#{CONFIG}\nsolid_queue_mode :async\nworkers 1\nsilence_single_worker_warning\npreload_app!")
    assert_equal command.pid, run_job(command, "here")
    assert_empty queue_processes
    assert_equal 0, finish(command)
  end
end
