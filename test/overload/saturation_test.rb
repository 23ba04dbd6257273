# frozen_string_literal: true

# also: modes tls sanitized rubies

require "monitor"
require "tempfile"
require "test_helper"
require "support/server_case"

# Pages compute all the time, more than a processor can do, and light requests come in between. Nothing here says how
# long something takes: each answer comes, and what has to be in order is.
class OverloadSaturationTest < Minitest::Test
  include ServerCase

  CLIENTS = 4
  PAGES = 6 # that each of them asks for
  PAGE = 0.012 # seconds of processor time
  LIGHT = 20

  def guest? = ServerCase::MODE.key?(:fiber_scheduler)

  def self.compute(seconds)
    limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
    nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
  end

  # Serves pages, each around what the block does, and light requests.
  def saturated(light: -> {}, **options, &page)
    page ||= -> { OverloadSaturationTest.compute(PAGE) }
    serve(**options) do |env|
      env["PATH_INFO"] == "/page" ? page.call : light.call
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
  end

  # Asks for all pages at once, and calls the block meanwhile.
  def saturate(running, clients: CLIENTS)
    askers = Array.new(clients) do
      client = connect(running)
      Thread.new { Array.new(PAGES) { client.call(request("GET", "/page")).body } }
    end
    yield
    assert_equal [["/page"] * PAGES] * clients, askers.map(&:value)
  ensure
    askers&.each(&:join)
  end

  def assert_light_ones_are_served(running)
    client = connect(running)
    assert_equal ["/light"] * LIGHT, Array.new(LIGHT) { client.call(request("GET", "/light")).body }
  end

  # The first ones of a route are not known to be heavy.
  def warm_up(running)
    client = connect(running)
    3.times { client.call(request("GET", "/page")) }
  end

  # A page that has begun is ended before another one begins. That is promised where the server's own loops run pages: a
  # thread that waits for Ruby's lock, which these clients want as well, looks like one that blocks.
  def test_pages_do_not_take_turns
    inside = most = 0
    running = saturated do
      inside += 1
      most = [most, inside].max
      OverloadSaturationTest.compute(PAGE)
      inside -= 1
    end
    warm_up(running)
    saturate(running) { nil }
    on_loops = !guest? && !ServerCase.threads?
    assert_includes 1..(on_loops ? CLIENTS - 1 : CLIENTS), most
  end

  # They would come last if requests went by age.
  def test_light_requests_do_not_wait_for_all_pages
    order = Queue.new
    running = saturated(light: -> { order << :light }) do
      OverloadSaturationTest.compute(PAGE)
      order << :page
    end
    warm_up(running)
    ask(running, request("GET", "/light"))
    order.clear
    saturate(running) { assert_light_ones_are_served(running) }
    events = Array.new(order.size) { order.pop }
    assert_equal [CLIENTS * PAGES, LIGHT], %i[page light].map { |kind| events.count(kind) }
    return if guest?

    before = events.index(:light)
    assert_operator before, :<, CLIENTS * PAGES, events.inspect
  end

  # What the light ones wait for is the page that was made to wait for them.
  { "a_mutex" => Mutex, "a_monitor" => Monitor }.each do |name, kind|
    define_method("test_#{name}_of_a_page_that_makes_way") do
      lock = kind.new
      running = saturated(light: -> { lock.synchronize { nil } }) do
        lock.synchronize { OverloadSaturationTest.compute(PAGE) }
      end
      saturate(running) { assert_light_ones_are_served(running) }
    end
  end

  def test_pages_that_offload
    running = saturated { Abaca.offload { OverloadSaturationTest.compute(PAGE) } }
    saturate(running) { assert_light_ones_are_served(running) }
  end

  # In C, where the fiber cannot wait: the whole thread does, and computes nothing. All pages are answered meanwhile. In
  # guest mode there is only that thread (docs/guest_mode.md), so there they are answered when it is free.
  def test_a_call_that_blocks_keeps_no_page_from_beginning
    Tempfile.create do |held|
      held.flock(File::LOCK_EX)
      waits = Queue.new
      running = saturated(light: -> { (waits << true) && File.open(held.path) { |file| file.flock(File::LOCK_EX) } })
      warm_up(running)
      blocked = connect(running).write(request("GET", "/light"))
      waits.pop
      saturate(running) { held.flock(File::LOCK_UN) if guest? }
      assert blocked.silent?(0), "it was answered while its lock was held" unless guest?
      held.flock(File::LOCK_UN)
      assert_equal "/light", blocked.read.body
    end
  end

  # For the log: lib/abaca/saturation.rb. In guest mode nothing is measured.
  def test_the_load_is_counted
    running = saturated
    saturate(running) { nil }
    engine = running.server.instance_variable_get(:@engine)
    return assert_equal(0, engine.saturation[:requests]) if guest?

    load = nil
    assert(eventually { (load = engine.saturation)[:requests].positive? }) # a page ends when its answer is out
    assert_includes 1..(CLIENTS * PAGES), load[:requests]
    assert_operator load[:computed], :>=, load[:requests] * 0.005
    assert_includes ["/page", "*"], load[:routes].first.first # a rule's, on threads
    assert_operator load[:routes].first.last, :<=, load[:computed]
  end

  # The drain lets what has begun end, and what waits be served.
  def test_a_drain
    running = saturated
    warm_up(running)
    clients = Array.new(2 * CLIENTS) { connect(running).write(request("GET", "/page")) }
    assert eventually { running.server.stats[:requests] + running.server.stats[:waiting] >= 3 + (2 * CLIENTS) }
    running.stop
    assert_equal ["/page"] * clients.size, clients.map { |client| client.read.body }
  end
end
