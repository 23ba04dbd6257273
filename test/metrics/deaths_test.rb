# frozen_string_literal: true

require "test_helper"
require_relative "exposition"
require_relative "metrics_case"

# Workers are killed one after another, under load and between scrapes. What was counted once stays, and what is said
# in two ways agrees. METRICS_DEATHS=200 METRICS_SCRAPES=10000 TEST_DEADLINE=900 is the long form.
class MetricsDeathsTest < Minitest::Test
  include MetricsCase

  DEATHS = Integer(ENV.fetch("METRICS_DEATHS", 4))
  SCRAPES = Integer(ENV.fetch("METRICS_SCRAPES", 150))
  WORKERS = 3
  CLIENTS = 3
  APP = <<~'RUBY'
    run(lambda do |env|
      env["abaca.route"] = "/things/#{env["PATH_INFO"].hash % 5}"
      [env["PATH_INFO"].end_with?("3") ? 404 : 200, {}, ["thing\n"]]
    end)
  RUBY

  def test_no_counter_falls_while_workers_die
    @command = run_cluster(APP, config: config(WORKERS), count: WORKERS)
    clients = start_clients
    @deaths = 0
    (@scrapes = 0).upto(Float::INFINITY) do
      kill_one if @deaths < DEATHS && @deaths * SCRAPES <= @scrapes * DEATHS
      look
      break if @deaths >= DEATHS && @scrapes >= SCRAPES
    end
    clients.each { |client| client[:over] = true }.each(&:join)
    check_end
  end

  private

  # A connection of a worker that is killed breaks.
  def start_clients
    Array.new(CLIENTS) do |nth|
      Thread.new do
        0.upto(Float::INFINITY) do |i|
          break if Thread.current[:over]

          request(@command, "/#{nth}/#{i % 100}")
          sleep 0.002
        rescue SystemCallError, IOError
          nil
        end
      end
    end
  end

  def kill_one
    alive = running(@command)
    return unless alive.size == WORKERS

    Process.kill(:KILL, alive.sample.pid)
    @deaths += 1
  end

  # The reader itself checks that a histogram's count is its last bucket.
  def look
    found = Exposition.new(fetch.last)
    counters = found.counters
    @before&.each { |key, value| flunk "#{key} fell after #{@deaths} deaths" if counters.fetch(key, -1) < value }
    @before = counters
    @scrapes += 1
    assert_operator found.samples["abaca_workers"].values.sum, :<=, WORKERS
    ended = found.sum("#{DURATION}_count")
    assert_operator ended, :<=, found["abaca_requests_total"]
    found
  end

  # Of what a worker was at when it was killed, a part may be counted.
  def check_end
    found = nil
    assert(eventually do
      found = look
      found["abaca_worker_restarts_total", reason: "death"] == DEATHS &&
        found["abaca_workers", state: "serving"] == WORKERS
    end)
    assert_operator found.sum("#{DURATION}_count"), :>, DEATHS
    lost = found["abaca_requests_total"] - found.sum("#{DURATION}_count")
    assert_operator lost, :<=, DEATHS * CLIENTS
    assert_in_delta found.sum("#{DURATION}_sum"), found.sum("abaca_request_state_seconds_total"), 0.05 * DEATHS
    assert_equal Array.new(WORKERS, &:to_s), found.samples["abaca_worker_heartbeat_age_seconds"].keys.map { |of|
      of[:worker]
    }
  end
end
