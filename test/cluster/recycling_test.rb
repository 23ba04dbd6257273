# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/cluster_case"

# Workers that are replaced because they have served for long enough.
class ClusterRecyclingTest < Minitest::Test
  include ClusterCase

  APP = "run ->(_env) { [200, { 'content-type' => 'text/plain' }, ['hello']] }"
  Worker = Struct.new(:pid, :age, :slot, :booted) do
    alias_method :booted?, :booted
    def to_s = "Worker #{pid}"
  end
  Slot = Struct.new(:figures)

  def test_by_requests_without_a_lost_one
    command = run_cluster(APP, config: <<~RUBY)
      workers 2
      worker_max_requests 20
      worker_check_interval 0.1
      worker_cool_down 0.1
    RUBY
    first = running(command).map(&:pid)
    load = Load.new(command.port)
    assert eventually { command.text.scan(/is replaced: \d+ requests/).size > 1 }, command.text
    assert eventually { running(command).size == 2 && !running(command).map(&:pid).intersect?(first) }
    assert_empty load.stop
    refute_match(/Starting phased|phased upgrade/, command.text)
    assert_equal 0, finish(command)
  end

  def test_which_and_when
    young = worker(Process.pid, 10, 5)
    old = worker(1, 100, 2)

    assert_equal old, chosen([young, old], worker_max_age: 60)
    assert_equal young, chosen([young, old], worker_max_requests: 5)
    assert_nil chosen([young, old], worker_max_requests: 6, worker_max_age: 101)
    assert_nil chosen([old, worker(1, 0, 0, booted: false)], worker_max_age: 60)
  end

  def test_by_memory
    need_platform(:proc)
    young = worker(Process.pid, 10, 5)
    assert_equal young, chosen([young, worker(0, 1, 1)], worker_max_memory: 1_000_000) # there is no process 0
    assert_nil chosen([young], worker_max_memory: 2**40)
  end

  def test_one_in_a_cool_down
    found = []
    recycling = recycling({ worker_max_age: 60 }) { |one| found << one }
    3.times { recycling.due([worker(1, 100, 0)]) }

    assert_equal 1, found.size
  end

  private

  def worker(pid, age, requests, booted: true) = Worker.new(pid, age, Slot.new({ requests: }), booted)

  def chosen(workers, settings) = recycling(settings) { |one| one }.due(workers)

  def recycling(settings, &)
    Abaca::Launcher::Cluster::Recycling.new(Abaca::Config.new(settings), Abaca::Log.new(StringIO.new), &)
  end
end
