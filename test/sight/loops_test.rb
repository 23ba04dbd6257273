# frozen_string_literal: true

# also: rubies

require_relative "../test_helper"
require_relative "../support/sight_case"

# What each loop does now, to another process: its state, since when, and the request that it runs.
class LoopsTest < Minitest::Test
  include SightCase

  LOOPS = { "fiber" => :main, "guest:PlainScheduler" => :guest }.freeze

  def test_a_loop_that_is_idle
    LOOPS.each do |mode, kind|
      serve(mode) do |server|
        server.get("/")
        line = line_of(server, kind) { |one| one[:state] == :idle }
        assert_nil line[:request], mode
        assert_operator line[:ticks], :>, 0, mode
        next unless Abaca::Platform.here.has?(:proc)

        assert File.exist?("/proc/#{server.pid}/task/#{line[:tid]}"), mode
      end
    end
  end

  def test_a_loop_that_is_kept_has_stalled_and_names_the_request
    LOOPS.each do |mode, kind|
      serve(mode, stall_after: 50, spare_loops: 0) do |server|
        server.begin("/stall")
        line = line_of(server, kind) { |one| one[:state] == :stalled }
        assert_equal "/stall", path_of(server, line[:request]), mode
        assert_operator line[:since], :>=, 0.05, mode
        server.finish("/stall")
        line = line_of(server, kind) { |one| one[:state] == :idle && one[:sums][:stalled] > 0.5 }
        assert_operator line[:sums][:stalled], :>, 0.5, mode
      end
    end
  end

  def test_a_loop_whose_request_waits_does_not_name_it
    serve("fiber") do |server|
      server.begin("/lock")
      assert server.row_in(:lock)
      assert_nil line_of(server, :main) { |one| one[:state] == :idle }[:request]
      server.finish("/lock")
    end
  end

  def test_another_loop_takes_over
    serve("fiber", stall_after: 50, spare_loops: 1) do |server|
      server.begin("/stall")
      server.get("/")
      assert line_of(server, :spare) { |one| one[:ticks].positive? }
      server.finish("/stall")
    end
  end

  def test_threads_name_the_request_that_keeps_them
    serve("thread") do |server|
      server.begin("/pool")
      assert server.row_in(:pool)
      line = line_of(server, :thread) { |one| one[:request] }
      assert_equal ["/pool", :idle], [path_of(server, line[:request]), line[:state]]
      server.finish("/pool")
      server.begin("/stall")
      line = line_of(server, :thread) { |one| one[:state] == :busy && one[:since] > 0.2 }
      assert_equal "/stall", path_of(server, line[:request])
      server.finish("/stall")
      assert line_of(server, :thread) { |one| one[:request].nil? }
    end
  end

  def test_times_between_turns_are_counted
    serve("fiber", stall_after: 50, spare_loops: 0) do |server|
      server.get("/stall")
      assert(eventually { totals(server)[:stalls].positive? })
      assert_operator totals(server)[:stall_time], :>, 0.5
      # The first request may have come before the loop has waited for any.
      kinds = nil
      assert(eventually { server.get("/") && (kinds = kinds_of(server)).key?(:gvl_loop) })
      assert_operator kinds[:loop_lag][:sum], :>, 0.5
      assert_operator kinds[:loop_lag][:count], :>, 1
      assert_operator kinds[:gvl_loop][:count], :>, 0
      assert_equal totals(server).values_at(:stalls, :stall_time), kinds[:stall].values_at(:count, :sum)
    end
  end

  private

  def totals(server) = server.slot.totals
  def kinds_of(server) = server.slot.series.to_h { |one| [one[:kind], one] }

  # The first of that kind of which the block is true, as soon as there is one.
  def line_of(server, kind)
    found = nil
    all = nil
    done = eventually do
      all = server.slot.loops
      found = all.find { |line| line[:kind] == kind && yield(line) }
    end
    assert done, "no such loop: #{all}"
    found
  end

  def path_of(server, id) = server.slot.requests.find { |row| row[:id] == id }&.fetch(:path)
end
