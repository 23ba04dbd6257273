# frozen_string_literal: true

# also: rubies

require_relative "../test_helper"
require_relative "../support/sight_case"

# Each kind of wait shows in the page while it lasts, to another process, and the sums of a request's states are its
# duration, in every mode.
class StatesTest < Minitest::Test
  include SightCase

  # Also ends a wait, and keeps the loop.
  class App < SightCase::App
    private

    def unlock(_env) = (@lock << "x") && burn(0.1)

    def routed(env)
      env["abaca.route"] = "/the/:route"
      @lock.pop
    end
  end

  # path: the state of its wait on a fiber of Abaca's, and of another scheduler; where Ruby tells of threads (3.2), a
  # thread has it as well, or `io`.
  WAITS = { "/sleep" => :sleep, "/io" => :io, "/db" => :db, "/unix" => :cache, "/lock" => :lock, "/process" => :process,
            "/offload" => :offload, "/pool" => :pool, "/body" => :body, "/drain" => :drain, "/stream" => :io }.freeze
  TOLD = Thread.respond_to?(:each_caller_location) # 3.2

  %w[fiber thread routed hybrid guest:PlainScheduler].each do |mode|
    define_method("test_each_wait_shows_in_mode_#{mode.tr(':', '_')}") { check_waits(mode) }
  end

  # An operator asks for the requests of a route while they are there.
  def test_a_request_in_flight_has_its_route
    %w[fiber thread guest:PlainScheduler].each do |mode|
      serve(mode) do |server|
        server.begin("/routed")
        assert eventually { server.slot.requests.map { |row| row[:route] } == ["/the/:route"] }, mode
        server.release
        server.finish("/routed")
      end
    end
  end

  def test_a_wait_for_a_descriptor_names_its_peer
    serve("fiber") do |server|
      server.begin("/db")
      row = server.row_in(:db)
      assert_equal "127.0.0.1:#{server.database}", row[:waits_for]
      server.finish("/db")
    end
  end

  def test_a_connection_that_is_being_made_counts_as_its_peer
    need_platform(:peer_names)
    serve("fiber") do |server|
      server.begin("/connect")
      assert_equal "127.0.0.1:#{server.full}", server.row_in(:db)[:waits_for]
      server.end_connect
    end
  end

  def test_what_came_before_the_app_is_told_apart
    serve("fiber") do |server|
      began = now
      server.send_in_pieces("GET / HT", "TP/1.1\r\nHost: a.test\r\nX-Request-Start: t=#{Time.now.to_f - 1}\r\n\r\n")
      took = now - began
      sums = server.last_row[:sums]
      assert_includes 0.7..(1 + took), sums[:proxy]
      assert_includes 0.05..took, sums[:head]
      began = now
      server.send_in_pieces("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nab", "cd")
      assert_includes 0.05..(now - began), server.last_row[:sums][:body]
    end
  end

  def test_what_computes_runs_and_collections_are_told_apart
    serve("fiber") do |server|
      server.get("/compute")
      assert_operator server.last_row[:sums][:run], :>, 0.095
      server.get("/collect")
      assert_operator server.last_row[:sums][:gc], :>, 0.005
    end
  end

  def test_a_request_that_waits_for_its_turn_is_charged_for_that
    serve("fiber") do |server|
      server.begin("/lock")
      server.row_in(:lock)
      server.ask("/unlock")
      server.finish("/lock")
      assert_operator server.row_of("/lock")[:sums][:sched], :>, 0.09
    end
  end

  # A thread of the app's computes: the loop's time has come, but not the lock.
  def test_a_wait_for_rubys_lock_is_told_apart
    serve("fiber") do |server|
      server.ask("/hog")
      waits = Array.new(3) { server.get("/sleep") && server.row_of("/sleep")[:sums][:gvl].to_f }
      # A lock that is free is taken in microseconds.
      assert_operator waits.sum, :>, 0.001, waits
    end
  end

  # On a machine that is busy a thread that has begun to wait is asked to make way, and then waits again.
  def test_a_wait_is_still_that_when_the_thread_has_made_way
    others = Array.new(2) { fork { loop { nil } } }
    serve("routed", max_body_memory_total: 0) do |server|
      5.times do
        server.begin("/drain")
        assert server.row_in(:drain), server.rows.used
        server.finish("/drain")
      end
    end
  ensure
    others.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
  end

  def test_a_request_in_the_queue_has_a_row
    serve("fiber", max_fibers: 1, max_slow_clients: 0) do |server|
      server.begin("/lock")
      server.row_in(:lock)
      server.begin("/sleep")
      row = server.queued_row
      assert_equal [:queue, :queued, "/sleep", false], row.values_at(:state, :mode, :path, :taken)
      sleep 0.2
      server.finish("/lock")
      server.finish("/sleep")
      assert_operator server.row_of("/sleep")[:sums][:queue], :>, 0.2
      assert_empty server.rows.used(:queued)
    end
  end

  private

  def check_waits(mode)
    serve(mode, max_body_memory_total: 0) do |server|
      WAITS.each do |path, state|
        wanted = shown(mode, path, state)
        server.begin(path)
        row = server.row_in(wanted, path)
        assert row, "#{mode} #{path}: not seen in #{wanted}: #{server.rows.used}"
        sleep 0.1
        server.finish(path)
        check_sums(server.row_of(path), wanted, "#{mode} #{path}")
      end
    end
  end

  # On threads of Ruby 3.1 only the server's own waits are seen, and what the app says.
  def shown(mode, path, state)
    return state if %w[/body /drain /pool /stream].include?(path)
    return state unless %w[thread routed].include?(mode)

    TOLD ? :io : :run
  end

  def check_sums(row, state, what)
    assert_in_delta row[:duration], row[:total], row[:duration] / 100, what
    assert_operator row[:sums][state], :>, 0.09, "#{what}: #{row}"
    assert_equal [:answered, 200], row.values_at(:phase, :status), what
  end
end
