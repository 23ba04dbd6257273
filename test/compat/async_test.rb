# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"
require "support/server_case"
require "async"

# Sync { } and Async { } in requests that do not run on Async's own scheduler.
class AsyncTest < Minitest::Test
  include ServerCase

  def answer(text) = [200, TYPE.dup, [text.to_s]]

  def test_sync_returns_what_its_block_returns
    running = serve { answer(Sync { |task| [task.class, Fiber.scheduler.class, sleep(0)].join(" ") }) }
    assert_equal "Async::Task Async::Reactor 0", ask(running).body.sub("Async::Scheduler", "Async::Reactor")
  end

  def test_tasks_run_at_the_same_time
    met = Queue.new
    running = serve do
      answer(Sync { |task| Array.new(3) { |i| task.async { (met << i) && sleep(0) && (i * 2) } }.map(&:wait).sum })
    end
    assert_equal "6", ask(running).body
    assert_equal 3, met.size
  end

  # As on a thread without a scheduler.
  def test_async_has_ended_when_it_returns
    running = serve do
      task = Async { |outer| outer.async { sleep 0.001 } && :done }
      answer([task.status, task.wait].join(" "))
    end
    assert_match(/\Acompleted? done\z/, ask(running).body)
  end

  def test_blocks_inside_stay_where_they_are
    running = serve do
      answer(Sync do |outer|
        [Sync { |inner| inner.equal?(outer) }, Async { Thread.current }.wait == Thread.current]
      end)
    end
    assert_equal "[true, true]", ask(running).body
  end

  def test_exceptions_come_back
    running = serve do
      Sync { raise KeyError, "inside" }
    rescue KeyError => e
      answer(e.message)
    end
    assert_equal "inside", ask(running).body
  end

  # Both are there at once, each for the other.
  def test_other_requests_go_on
    left = Queue.new
    right = Queue.new
    running = serve do |env|
      mine, other = env["PATH_INFO"] == "/left" ? [left, right] : [right, left]
      answer(Sync { (other << env["PATH_INFO"]) && mine.pop })
    end
    clients = %w[/left /right].map { |path| connect(running).write(request("GET", path)) }
    assert_equal %w[/right /left], clients.map { |client| client.read.body }
  end

  def test_a_request_that_is_cancelled_ends_its_tasks
    ended = Queue.new
    running = serve(request_timeout: 1) do
      Sync { |task| task.async { sleep }.wait } && answer("late")
    ensure
      ended << true
    end
    assert_equal 504, ask(running).status
    assert ended.pop
    assert eventually { Thread.list.none? { |thread| thread.name == "abaca offload" } }
  end

  # Ruby 3.2.
  def test_the_storage_of_the_fiber_is_inherited
    skip "threads inherit none" if RUBY_VERSION < "3.2"

    running = serve do
      Fiber[:visitor] = "Ada"
      answer(Sync { |task| task.async { Fiber[:visitor] }.wait })
    end
    assert_equal "Ada", ask(running).body
  end
end

# What the server says of it.
class AsyncBootTest < Minitest::Test
  include ProcessCase

  APP = "require 'async'\nrun ->(_env) { [200, {}, [Sync { 'x' }]] }\n"
  SAID = /Async: its blocks in requests run on threads; faster: --fiber-scheduler Async::Scheduler/

  def test_it_names_the_fast_way
    command = run_abaca(APP)
    assert_equal "x", connect(command.port).call(ServerCase::GET).body
    assert_equal 1, command.text.scan(SAID).size, command.text
  end

  def test_on_the_fast_way_nothing_is_said
    skip "guest mode needs a newer Async than Ruby #{RUBY_VERSION} has" if RUBY_VERSION < "3.3"

    command = run_abaca(APP, "--fiber-scheduler", "Async::Scheduler")
    assert_equal "x", connect(command.port).call(ServerCase::GET).body
    refute_match SAID, command.text
  end
end
