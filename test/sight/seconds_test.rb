# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/sight_case"

# What a server writes each second: its history, and what its process is as a whole.
class SecondsTest < Minitest::Test
  include SightCase

  MODES = %w[fiber thread guest:PlainScheduler].freeze

  def test_each_second_has_a_record
    MODES.each do |mode|
      serve(mode) do |server|
        3.times { server.get("/") }
        assert eventually { history(server).sum { |one| one[:requests] } == 3 }, mode
        first = history(server).last[:tick]
        assert eventually { history(server).last[:tick] >= first + 3 }, mode
        ticks = history(server).map { |one| one[:tick] }.select { |tick| tick > first && tick <= first + 3 }
        # A guest's come with heartbeats, which may miss a second.
        assert_operator ticks.size, :>=, mode.start_with?("guest") ? 2 : 3, mode
      end
    end
  end

  def test_the_history_goes_on_while_ruby_hangs
    %w[fiber thread].each do |mode|
      serve(mode) do |server|
        server.get("/")
        assert eventually { !history(server).empty? }, mode
        server.begin("/hang")
        assert server.row_in(:run, "/hang"), mode
        ticks = history(server).last[:tick]
        sleep 2.5
        beat = server.slot.beat_age
        assert_operator history(server).last[:tick], :>=, ticks + 2, mode
        assert_equal 1, history(server).last[:in_app], mode
        assert_operator beat, :>, 2, mode
        server.finish("/hang")
      end
    end
  end

  def test_the_process_as_a_whole
    need_platform(:proc)
    MODES.each do |mode|
      serve(mode) do |server|
        server.begin("/lock")
        assert eventually { process(server)[:rss] > 5 && process(server)[:cpu].positive? }, mode
        counted = mode == "thread" ? %i[threads threads_most] : %i[fibers fibers_most]
        assert eventually { process(server).values_at(*counted).all?(&:positive?) }, mode
        assert_in_delta 0.02, process(server)[:stall_after], 1e-6, mode
        before = totals(server)
        server.finish("/lock")
        server.get("/collect")
        assert eventually { totals(server)[:gc_major] >= before[:gc_major] + 10 }, mode
        assert_operator totals(server)[:gc_time], :>, before[:gc_time], mode
      end
    end
  end

  def test_requests_without_an_answer_of_the_app_are_one_event_each_second
    serve("fiber", max_fibers: 1, max_slow_clients: 0, max_queue: 1) do |server|
      server.begin("/lock")
      assert server.row_in(:lock)
      server.begin("/sleep")
      assert server.queued_row
      began = now
      5.times { server.get("/") }
      took = now - began
      assert eventually { rejected(server).sum == 5 }, server.slot.events.to_s
      assert_operator rejected(server).size, :<=, took.floor + 2
      assert_match(/\A\d+ requests?: queue_full \d+\z/, server.slot.events.find { |one| one[:kind] == :reject }[:text])
      # They are requests, in the history too: a share of them is never more than the whole.
      assert_equal [5, 5], history(server).map { |one| one.values_at(:requests, :failed) }.transpose.map(&:sum)
      server.finish("/lock")
      server.finish("/sleep")
    end
  end

  private

  def history(server) = server.slot.history(:seconds)
  def process(server) = server.slot.process
  def totals(server) = server.slot.totals
  def rejected(server) = server.slot.events.filter_map { |one| Integer(one[:text][/\d+/]) if one[:kind] == :reject }
end
