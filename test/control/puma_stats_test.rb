# frozen_string_literal: true

require "test_helper"
require "json"
require "abaca"
require "abaca/control"

# Figures in Puma's shape.
class PumaStatsTest < Minitest::Test
  PumaStats = Abaca::Control::PumaStats
  COUNTERS = %i[backlog running pool_capacity busy_threads io_threads max_threads requests_count].freeze
  START = Time.new(2026, 11, 23, 18, 0, 0, "+01:00")
  FIGURES = { in_app: 3, waiting: 2, requests: 70, slow: 1, connections: 9,
              fiber_pool: { high_water: 8 }, thread_pool: { threads: 2 } }.freeze

  def single(figures = FIGURES, places: 10) = PumaStats.single(figures, places:, started_at: START)

  def test_a_single_process
    stats = single
    assert_equal [:started_at, *COUNTERS, :versions, :abaca], stats.keys
    assert_equal "2026-11-23T17:00:00Z", stats[:started_at]
    assert_equal [2, 10, 7, 5, 1, 10, 70], stats.values_at(*COUNTERS)
    assert_equal({ engine: RUBY_ENGINE, version: RUBY_VERSION, patchlevel: RUBY_PATCHLEVEL }, stats[:versions][:ruby])
    assert_equal [1, Abaca::VERSION, 9], stats[:abaca].values_at(:v, :version, :connections)
    assert_equal stats, JSON.parse(JSON.generate(stats), symbolize_names: true)
  end

  # Requests that wait for their clients give up their places, and others take them.
  def test_more_requests_than_places
    stats = single({ in_app: 12, waiting: 0, requests: 12, slow: 4, thread_pool: nil, fiber_pool: nil })
    assert_equal [0, 12, 12, 10], stats.values_at(:pool_capacity, :running, :busy_threads, :max_threads)
  end

  # One worker serves, one of an older phase drains, one boots, and one has ended.
  def test_a_cluster
    page = cluster_page(2 => [:serving, 1], 0 => [:draining, 0], 3 => [:booting, 1], 1 => [:ended, 0])
    stats = PumaStats.cluster(page, places: 10, phase: 1, started_at: START)

    assert_equal %i[started_at workers phase booted_workers old_workers worker_status versions abaca], stats.keys
    assert_equal ["2026-11-23T17:00:00Z", 3, 1, 2, 1],
                 stats.values_at(:started_at, :workers, :phase, :booted_workers, :old_workers)
    old, serving, booting = stats[:worker_status]
    assert_equal %i[started_at pid index phase booted last_checkin last_status abaca], serving.keys
    assert_equal [[0, 0, true], [2, 1, true], [3, 1, false]],
                 [old, serving, booting].map { |worker| worker.values_at(:index, :phase, :booted) }
    assert_equal page[2].pid, serving[:pid]
    assert_equal({ backlog: 0, running: 0, pool_capacity: 10, busy_threads: 0, max_threads: 10, requests_count: 0 },
                 serving[:last_status])
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, serving[:last_checkin])
    assert_equal [{}, nil, :booting], [booting[:last_status], booting[:last_checkin], booting[:abaca][:state]]
    assert_equal page.sums, stats[:abaca].except(:v, :version)
    assert_equal({ v: 1, workers: stats[:worker_status] }, PumaStats.workers(stats))
    # Where slots beyond the second are second ones of a number.
    paired = PumaStats.cluster(page, places: 10, phase: 1, started_at: START, numbers: 2)[:worker_status]
    assert_equal [0, 0, 1], paired.map { |worker| worker[:index] }
  ensure
    page&.close
  end

  # A single process is one worker.
  def test_the_only_worker
    worker = PumaStats.workers(single).fetch(:workers).first
    assert_equal %i[started_at pid index phase booted last_checkin last_status abaca], worker.keys
    assert_equal [Process.pid, single.slice(*COUNTERS)], worker.values_at(:pid, :last_status)
    assert_equal({ state: :serving, **FIGURES }, worker[:abaca])
  end

  def test_places
    places = { {} => 1000, { max_fibers: 7 } => 7, { mode: :thread, threads: [0, 5] } => 5,
               { max_fibers: 7, threads: [0, 5] } => 7, { mode: :hybrid, max_fibers: 7, threads: [0, 5] } => 12 }
    places.each { |settings, number| assert_equal number, Abaca::Config::Modes.places(Abaca::Config.new(settings)), settings }
  end

  # What a server counts has all that is needed.
  def test_figures_of_a_server
    server = Abaca::Server.new(->(_env) { [200, {}, []] }, log: Abaca::Log.new(StringIO.new))
    stats = single(server.stats)
    assert_equal [0, 0, 10, 0, 0, 10, 0], stats.values_at(*COUNTERS)
    assert_equal 1, JSON.generate(stats).lines.size
  ensure
    server&.close
  end

  private

  # A page whose slots have these states and phases, each of another process.
  def cluster_page(slots)
    page = Abaca::Page.create(slots: 4)
    slots.each do |index, (state, phase)|
      Process.wait(fork do
        slot = page[index].claim(phase:)
        slot.beat unless state == :booting
        slot.state = state
        exit!
      end)
    end
    page
  end
end
