# frozen_string_literal: true

require "test_helper"
require "support/server_case"
require "support/spoiled_page"

# Something writes anything into the page while a server runs in it: it serves on, and knows what it has.
class PageSpoiledTest < Minitest::Test
  include ServerCase

  MODES = %w[fiber thread hybrid guest:PlainScheduler].freeze
  CLIENTS = 6
  # By each client.
  REQUESTS = 40

  def setup
    need_platform(:proc)
    GC.start # other tests have pages, too
    @page = Abaca::Page.create(slots: 2, rows: 30, queued: 10)
    @spoiled = SpoiledPage.new(Process.pid)
    super
  end

  def teardown
    super
  ensure
    [@spoiled, @page].each { |one| one&.close }
  end

  # Runs, waits, computes, fails; and asks what it has done.
  def app
    lock = Mutex.new
    lambda do |env|
      sleep 0.001
      lock.synchronize { Thread.pass }
      Abaca::Engine.request_times
      env["abaca.route"] = "/#{env["PATH_INFO"].hash % 100}"
      raise "as it shall" if env["PATH_INFO"] == "/raise"

      [200, { "content-type" => "text/plain" }, [env["PATH_INFO"]]]
    end
  end

  def spoil_until(done)
    SpoiledPage::WAYS.cycle.with_index do |way, seed|
      break if done.call

      @spoiled.spoil(way, seed, slots: [0, 1])
      sleep 0.01
    end
  end

  # Each request has a connection of its own.
  def ask_all(running)
    Array.new(CLIENTS) do |number|
      Thread.new do
        Array.new(REQUESTS) do |i|
          path = i % 10 == 9 ? "/raise" : "/#{number}/#{i}"
          client = Wire::Client.new(running.port)
          answer = client.call(request("GET", path, connection: "close"))
          [path, answer.status, answer.body]
        ensure
          client&.close
        end
      end
    end
  end

  MODES.each do |mode|
    define_method(:"test_a_server_serves_on_#{mode.split(':').first}") do
      options = { **ServerCase.mode_options(mode), **ServerCase.places(3), slow_after: 0.001, max_queue: 1000 }
      running = serve(app, slot: @page[0].claim, **options)
      clients = ask_all(running)
      spoil_until(-> { clients.none?(&:alive?) })
      clients.flat_map(&:value).each do |path, status, body|
        assert_equal path == "/raise" ? 500 : 200, status
        assert_equal path, body unless path == "/raise"
      end
      check_figures(running)
      running.stop
    end
  end

  # Its own, and those that it shows again.
  def check_figures(running)
    assert eventually { running.server.stats.values_at(:in_app, :waiting, :connections) == [0, 0, 0] }
    assert eventually { @page[0].figures.values_at(:in_app, :waiting, :connections) == [0, 0, 0] }
    assert eventually { [@page[0].state, @page[0].pid] == [:serving, Process.pid] }
    assert_empty running.server.requests
    assert_predicate @page[0], :mine?
  end
end
