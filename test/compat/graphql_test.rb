# frozen_string_literal: true

# also: modes rubies

require "test_helper"
require "support/server_case"
require "timeout"

# Fields that wait in the fibers of GraphQL::Dataloader, for which a stand-in is here: it creates and runs them as the
# gem does.
module GraphQL
  class Dataloader
    def initialize(nonblocking: nil)
      @nonblocking = nonblocking
      @jobs = []
    end

    def nonblocking? = @nonblocking

    def append_job(&job) = @jobs << job

    # A field calls it, to go on when all fields have said what they want.
    def yield = Fiber.yield

    def run
      manager = spawn_fiber do
        fibers = @jobs.map { |job| spawn_fiber(&job) }
        fibers.each(&:resume).select!(&:alive?) until fibers.empty?
      end
      manager.resume
      raise "the manager has not ended" if manager.alive?
    end

    def spawn_fiber
      locals = Thread.current.keys.to_h { |key| [key, Thread.current[key]] }
      Fiber.new(blocking: !@nonblocking) do
        locals.each { |key, value| Thread.current[key] = value }
        yield
      end
    end
  end
end

class GraphQLTest < Minitest::Test
  include ServerCase

  def setup
    super
    @gate = Queue.new
  end

  def teardown
    @gate << true # for a field that still waits
    super
  end

  # Answers with what the block returns, which gets a Dataloader and the env. No other loop helps one that is kept.
  def serve_loader(&block)
    serve(lambda do |env|
      [200, TYPE.dup, [block.call(GraphQL::Dataloader.new, env).to_s]]
    end, spare_loops: 0)
  end

  # A field waits in the middle; the next one begins when it yields, and goes on in the next round.
  def test_fields_take_turns_as_without_a_wait
    running = serve_loader do |loader, _env|
      order = []
      %w[a b].each do |name|
        loader.append_job do
          order << "#{name}1"
          sleep(0.01)
          order << "#{name}2"
          loader.yield
          order << "#{name}3"
        end
      end
      loader.run
      order.join(" ")
    end
    assert_equal ["a1 a2 b1 b2 a3 b3"] * 3, Array.new(3) { ask(running).body }
  end

  def test_a_field_has_the_variables_of_its_request
    running = serve_loader do |loader, env|
      Thread.current[:user] = env["PATH_INFO"]
      found = nil
      loader.append_job do
        sleep(0.01)
        found = [Thread.current[:user], loader.nonblocking?.inspect].join(" ")
      end
      loader.run
      found
    end
    clients = %w[/a /b].map { |path| connect(running).write(request("GET", path)) }
    assert_equal ["/a nil", "/b nil"], clients.map { |client| client.read.body }
  end

  def test_an_exception_leaves_the_field
    running = serve_loader do |loader, _env|
      loader.append_job do
        sleep(0.01)
        raise IOError, "in the field"
      end
      loader.run
    rescue IOError => e
      e.message
    end
    assert_equal "in the field", ask(running).body
  end

  # Code that asks for a blocking fiber has its reason.
  def test_in_a_blocking_fiber_they_block
    running = serve_loader do |loader, _env|
      found = nil
      loader.append_job { found = Fiber.current.blocking? }
      Fiber.new(blocking: true) { loader.run }.resume
      found
    end
    assert_equal "true", ask(running).body
  end

  # PlainScheduler's fibers wait by Fiber.yield, which the gem would take for its own: there a field blocks.
  if MODE[:fiber_scheduler] == "PlainScheduler"
    def test_a_field_blocks
      running = serve_loader do |loader, _env|
        found = nil
        loader.append_job { found = Fiber.current.blocking? }
        loader.run
        found
      end
      assert_equal "true", ask(running).body
    end
  else
    def test_a_field_that_waits_lets_other_requests_run
      running = serve_loader do |loader, env|
        loader.append_job { @gate.pop } if env["PATH_INFO"] == "/slow"
        loader.run
        "done"
      end
      slow = connect(running).write(request("GET", "/slow"))
      assert eventually { @gate.num_waiting == 1 }
      assert_equal "done", ask(running, request("GET", "/other")).body
      @gate << true
      assert_equal "done", slow.read.body
    end

    def test_a_deadline_ends_the_wait_in_a_field
      running = serve_loader do |loader, _env|
        loader.append_job { @gate.pop }
        Timeout.timeout(0.02) { loader.run }
      rescue Timeout::Error
        "in time"
      end
      assert_equal ["in time"] * 2, Array.new(2) { ask(running).body }
    end
  end
end
