# frozen_string_literal: true

require "test_helper"
require "abaca"
require_relative "exposition"
require_relative "metrics_case"

# The app's pools in /metrics: of real gems, over the wire, of servers with workers.
class MetricsPoolsTest < Minitest::Test
  include MetricsCase

  WAIT = "db_client_connection_wait_time_seconds"
  APP = <<~'RUBY'
    require "active_record"
    require "connection_pool"
    require "sequel"

    class NoDatabase < ActiveRecord::ConnectionAdapters::AbstractAdapter
      ADAPTER_NAME = "nothing"

      def active? = true
    end
    ActiveRecord::ConnectionAdapters.register("nothing", "NoDatabase", __FILE__)
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Base.configurations = { "development" => { "primary" => { "adapter" => "nothing" } } }

    class Things < ActiveRecord::Base
      self.abstract_class = true
    end
    Things.establish_connection(ActiveRecord::DatabaseConfigurations::HashConfig.new(
      "development", "things", { adapter: "nothing", pool: 3, checkout_timeout: 20, reaping_frequency: nil }
    ))

    class Nowhere < Sequel::Database
      def connect(_server) = Object.new
      def disconnect_connection(_connection) = nil
    end
    SEQUEL = Nowhere.new(max_connections: 4, database: "a\"b\\c\n\xff#{"é" * 40}", keep_reference: true)
    CACHE = ConnectionPool.new(size: 2, timeout: 0.2) { Object.new }

    held = Thread::Queue.new
    answer = ->(text) { [200, {}, [text.to_s]] }
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/things" then answer.call(Things.connection_pool.with_connection { 1 })
      when "/hold"
        Things.connection_pool.with_connection { held.pop }
        answer.call("held")
      when "/release" then answer.call(held << 1 && 1)
      when "/out"
        held_ones = Array.new(3) { Things.connection_pool.checkout }
        begin
          Fiber.schedule { Things.connection_pool.checkout(0.01) rescue 1 }
          Things.connection_pool.checkout(0.05)
        rescue ActiveRecord::ConnectionTimeoutError => e
          answer.call(e.class)
        ensure
          held_ones.each { |one| Things.connection_pool.checkin(one) }
        end
      when "/sequel" then answer.call(SEQUEL.synchronize { 1 })
      when "/cache" then answer.call(CACHE.with { 1 })
      when "/many"
        100.times { |i| Nowhere.new(database: "many#{i}", keep_reference: false).synchronize { 1 } }
        answer.call("many")
      when "/fork"
        child = fork { 5.times { CACHE.with { 1 } } && exit!(0) }
        answer.call(Process.wait2(child).last.exitstatus)
      end
    end)
  RUBY
  THINGS = { db_client_connection_pool_name: "ActiveRecord things" }.freeze
  CACHE = { db_client_connection_pool_name: "ConnectionPool" }.freeze

  def scrape = Exposition.new(fetch.last)

  def serve(workers = 1)
    more = workers == 1 ? "silence_single_worker_warning" : ""
    run_cluster(APP, config: config(workers, more), count: workers)
  end

  def ask(command, path) = request(command, path).body

  # Once what was looked at is what the block wants.
  def eventually_scraped
    found = nil
    assert(eventually { yield(found = scrape) })
    found
  end

  def state(found, labels, state) = found["db_client_connection_count", **labels, db_client_connection_state: state]

  def test_what_a_pool_has
    command = serve
    assert_empty scrape.samples.keys.grep(/db_client/)
    2.times { assert_equal "1", ask(command, "/things") }
    client = connect(command.port).write("GET /hold HTTP/1.1\r\nHost: a.test\r\n\r\n")
    found = eventually_scraped { |one| state(one, THINGS, "used") == 1 && one["#{WAIT}_count", **THINGS] == 3 }
    assert_equal 3, found["db_client_connection_max", **THINGS]
    assert_equal 0, found["db_client_connection_pending_requests", **THINGS]
    assert_equal 0, found["db_client_connection_timeouts_total", **THINGS]
    ask(command, "/release")
    assert_equal "held", client.read.body
    found = eventually_scraped { |one| state(one, THINGS, "used").zero? }
    assert_operator state(found, THINGS, "idle"), :>=, 1
    assert_equal({ "db_client_connection_count" => "gauge", "db_client_connection_max" => "gauge",
                   "db_client_connection_pending_requests" => "gauge",
                   "db_client_connection_timeouts_total" => "counter", WAIT => "histogram" },
                 found.types.select { |name, _| name.start_with?("db_client") })
  end

  # With a timeout of their own, they do not wait in our line.
  def test_a_pool_that_times_out
    command = serve
    assert_equal "ActiveRecord::ConnectionTimeoutError", ask(command, "/out")
    found = eventually_scraped { |one| one["db_client_connection_timeouts_total", **THINGS] == 2 }
    assert_equal 3, found["#{WAIT}_count", **THINGS]
    assert_equal 0, found["db_client_connection_pending_requests", **THINGS]
  end

  def test_those_that_wait
    command = serve
    clients = Array.new(5) { connect(command.port).write("GET /hold HTTP/1.1\r\nHost: a.test\r\n\r\n") }
    eventually_scraped do |one|
      state(one, THINGS, "used") == 3 && one["db_client_connection_pending_requests", **THINGS]&.positive?
    end
    5.times { ask(command, "/release") }
    clients.each { |client| assert_equal "held", client.read.body }
    found = eventually_scraped { |one| one["#{WAIT}_count", **THINGS] == 5 }
    assert_equal 0, found["db_client_connection_pending_requests", **THINGS]
    assert_operator found["#{WAIT}_sum", **THINGS], :>, 0.05
  end

  # Sequel's pool has the name of a database, which is the app's own text.
  def test_other_gems_and_a_hostile_name
    command = serve
    3.times { assert_equal "1", ask(command, "/sequel") }
    2.times { assert_equal "1", ask(command, "/cache") }
    found = eventually_scraped { |one| one["#{WAIT}_count", **CACHE] == 2 && state(one, CACHE, "idle") == 1 }
    assert_equal 2, found["db_client_connection_max", **CACHE]
    name = found.samples["#{WAIT}_count"].keys.map(&:values).flatten.grep(/Sequel/).first
    assert name.start_with?("Sequel a\"b\\c\n?éé"), name.inspect
    assert_operator name.bytesize, :<=, 64
    assert_equal 3, found["#{WAIT}_count", db_client_connection_pool_name: name]
  end

  # What is too much is counted as such, and tells nothing.
  def test_more_pools_than_names
    need_platform(:memfd) # in a file there is room for fewer
    command = serve
    ask(command, "/things")
    assert_equal "many", ask(command, "/many")
    found = eventually_scraped { |one| one["abaca_pools_dropped_total"] == 85 }
    assert_equal 16, found.samples["#{WAIT}_count"].size
    assert_equal 1, found["#{WAIT}_count", **THINGS]
  end

  # The process that is forked has no slot: what it takes is no one's.
  def test_a_process_that_the_app_forks
    command = serve
    ask(command, "/cache")
    assert_equal "0", ask(command, "/fork")
    ask(command, "/cache")
    found = eventually_scraped { |one| one["#{WAIT}_count", **CACHE] >= 2 }
    assert_equal 2, found["#{WAIT}_count", **CACHE]
    assert_equal 0, found["db_client_connection_pending_requests", **CACHE]
  end

  # Counters of a worker that is killed stay, what it has does not.
  def test_a_worker_that_is_killed
    command = serve(2)
    8.times { ask(command, "/things") }
    assert_equal "ActiveRecord::ConnectionTimeoutError", ask(command, "/out")
    eventually_scraped { |one| one["db_client_connection_max", **THINGS].to_f.positive? }
    before = scrape
    running(command).each { |worker| Process.kill(:KILL, worker.pid) }
    found = eventually_scraped do |one|
      one["abaca_worker_restarts_total", reason: "death"] == 2 && one["abaca_workers", state: "serving"] == 2
    end
    assert_equal 11, before["#{WAIT}_count", **THINGS]
    before.counters.each do |(name, labels), value|
      assert_equal value, found[name, **labels], name if name.start_with?("db_client")
    end
    assert_equal 0, state(found, THINGS, "used") + state(found, THINGS, "idle")
    ask(command, "/things")
    eventually_scraped { |one| one["#{WAIT}_count", **THINGS] == 12 && one["db_client_connection_max", **THINGS] == 3 }
  end
end
