# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# The order in which requests are served while more come than can be: nobody is overtaken by many.
class OrderTest < Minitest::Test
  include ServerCase

  CROWD = 20  # connections that keep the server busy
  EACH = 300  # requests on each of them
  START = 500 # the crowd's request from which on the one that is watched is looked at
  # In one round each connection has its turn, with as many requests as the engine takes of one that has sent
  # them all at once.
  ROUND = CROWD * 16
  # What came before is served before, the threads' turns with Ruby's lock take a millisecond, and a busy machine
  # may keep a thread that has the lock from its processor. Beyond that nobody is overtaken by more than one round;
  # whoever had lost the lock for Ruby's 100 ms was overtaken by 1,900 and more.
  MOST = 5 * ROUND
  # A single turn may fall behind all of that where other programs have the processors: so many of them are looked at,
  # which the crowd outlasts even if each is overtaken by too many.
  TURNS = 3

  THREADS = { threads: [4, 4] }.freeze
  WAYS = {
    "fiber" => { mode: :fiber, routes: [] },
    "thread" => { mode: :thread, routes: [], **THREADS },
    "routed" => { mode: :fiber, routes: [[:thread, "*"]], **THREADS },
    "hybrid" => { mode: :hybrid, routes: [], **THREADS },
    "guest" => { mode: :fiber, fiber_scheduler: "PlainScheduler", routes: [] }
  }.freeze
  # Only the one that is watched is on a thread.
  BESIDE = { "thread_beside_fibers" => { mode: :fiber, routes: [[:thread, "/watched"]], **THREADS } }.freeze

  def self.each_way(name, ways = WAYS, &block)
    ways.each { |way, options| define_method("test_#{name}_#{way}") { instance_exec(options, &block) } }
  end

  # It makes room for others again and again, and wants to go on each time.
  each_way "who_has_begun_goes_on", WAYS.merge(BESIDE) do |options|
    begun = Queue.new
    overtaken = Queue.new
    running = crowded(**options) do |count, env|
      next unless env["PATH_INFO"] == "/watched"

      begun << true
      make_room(env) until count.call > START
      before = count.call
      TURNS.times { make_room(env) }
      overtaken << ((count.call - before) / TURNS)
    end
    connect(running).write(request("GET", "/watched"))
    begun.pop
    crowd(running)
    assert_operator overtaken.pop, :<=, MOST
  end

  # It comes on a new connection while the others have more to serve than the server can.
  each_way "who_comes_is_served" do |options|
    overtaken = Queue.new
    running = nil
    running = crowded(**options) do |count, env|
      if env["PATH_INFO"] == "/watched"
        overtaken << (count.call - START)
      elsif count.call == START
        (@visitor = Socket.tcp("127.0.0.1", running.port)).write(request("GET", "/watched"))
      end
    end
    crowd(running)
    assert_operator overtaken.pop, :<=, MOST
  ensure
    @visitor&.close
  end

  private

  # A server whose app tells the block of each request, and of how many of the crowd's have begun.
  def crowded(**options)
    begun = 0
    count = -> { begun }
    serve(lint: false, **options) do |env|
      begun += 1 unless env["PATH_INFO"] == "/watched"
      yield count, env
      [200, { "content-length" => "0" }, []]
    end
  end

  def make_room(env)
    env["abaca.mode"] == :thread ? Thread.pass : sleep(0)
    nil
  end

  # All of it is sent before it is read, so that nobody here wants Ruby's lock meanwhile.
  def crowd(running)
    clients = Array.new(CROWD) { connect(running) }
    clients.each { |client| client.write(GET * EACH) }
  end
end
