# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "timeout"

# The line in front of a pool of two: who enters when, what the engines are told, and what becomes of those
# that do not wait to the end.
class OverloadPoolGateTest < Minitest::Test
  GATE = Abaca.const_get(:PoolGate)

  # An engine that notes what it is told. Every fiber is a request's, which waits here once.
  class Engine
    attr_reader :loads

    def initialize
      @loads = []
      @waited = {}.compare_by_identity
    end

    def pool_load(_id, size, waiters) = @loads << [size, waiters]

    def pool_wait(_id)
      first = !@waited[Fiber.current]
      @waited[Fiber.current] = true
      first
    end
  end

  Pool = Struct.new(:places)

  def setup
    @engine = Engine.new
    @gate = GATE.of(Pool.new(2), :places)
    @entered = []
    @ends = Thread::Queue.new
  end

  def schedule(&block)
    Thread.new do
      Fiber.set_scheduler(Abaca::Scheduler.new)
      GATE.attach(@engine) do
        Fiber.schedule(&block)
        Fiber.set_scheduler(nil) # which runs it to the end
      end
    end.join
  end

  def through(name, **options)
    Fiber.schedule do
      @gate.pass(**options) do
        @entered << name
        @ends.pop
      end
    end
  end

  def test_the_gate_of_a_pool
    pool = Pool.new(1)
    assert_same GATE.of(pool, :places), GATE.of(pool, :places)
    refute_same @gate, GATE.of(pool, :places)
    assert_equal :result, @gate.pass { :result }
  end

  def test_in_turn
    schedule do
      ("a".."e").each { |name| through(name) }
      assert_equal %w[a b], @entered
      assert_equal [[2, 2], [2, 3], [2, 4], [2, 5]], @engine.loads
      assert_equal [2, 5], @gate.figures.values_at(:size, :waiting)
      5.times { @ends << 1 }
    end
    assert_equal %w[a b c d e], @entered
    assert_equal [2, 0], @engine.loads.last
  end

  def test_one_alone_is_told_to_nobody
    schedule do
      through("a")
      @ends << 1
    end
    assert_empty @engine.loads
  end

  def test_what_has_waited_passes_and_so_does_what_cannot
    schedule do
      ("a".."c").each { |name| through(name) }
      Fiber.schedule do
        @engine.pool_wait(1) # for another pool, or earlier
        @gate.pass { @entered << "d" }
      end
      through("e", waits: false)
      assert_equal %w[a b d e], @entered
      4.times { @ends << 1 }
    end
    assert_equal %w[a b d e c], @entered
  end

  def test_what_is_interrupted_leaves_the_line
    schedule do
      ("a".."b").each { |name| through(name) }
      Fiber.schedule do
        assert_raises(Timeout::Error) { Timeout.timeout(0.01) { @gate.pass { flunk } } }
        @entered << "interrupted"
        3.times { @ends << 1 }
      end
      through("c")
    end
    assert_equal %w[a b interrupted c], @entered
    assert_equal [2, 0], @engine.loads.last
  end

  # It was called, and the exception comes before it runs: the next one is called in its place. Threads, since an
  # exception is raised in them while the lock is held.
  def test_what_is_interrupted_at_its_turn_passes_it_on
    gone = Class.new(StandardError)
    GATE.attach(@engine) do
      2.times { @gate.send(:enter, true) }
      waiting = stand_in_line("x")
      waiting.report_on_exception = false
      last = stand_in_line("y")
      lock.synchronize do
        @gate.send(:go)
        waiting.raise(gone)
      end
      assert_raises(gone) { waiting.join }
      last.join
    end
    assert_equal ["y"], @entered
  end

  def lock = @gate.instance_variable_get(:@lock)

  def stand_in_line(name)
    line = @gate.instance_variable_get(:@line)
    length = line.size
    thread = Thread.new { @gate.pass { @entered << name } }
    Thread.pass until lock.synchronize { line.size } > length
    thread
  end

  def test_without_a_limit
    unlimited = GATE.of(Pool.new(nil), :places)
    schedule do
      passed = Array.new(3) { Fiber.schedule { unlimited.pass { sleep 0.001 } } }
      refute_empty passed
    end
    assert_empty @engine.loads
  end

  # A forked child has none of what is inside in its parent.
  def test_a_forked_child
    schedule do
      ("a".."c").each { |name| through(name) }
      child = fork { exit!(Thread.new { @gate.pass { 1 } }.value == 1 && @gate.instance_variable_get(:@inside).zero?) }
      assert_predicate Process::Status.wait(child), :success?
      3.times { @ends << 1 }
    end
  end
end
