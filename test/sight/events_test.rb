# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/sight_case"

# What happens in a worker is an event, with the request that it happened to.
class EventsTest < Minitest::Test
  include SightCase

  def test_a_stall_names_its_request_its_route_and_its_frames
    serve("fiber", stall_after: 20, stall_report: 100) do |server|
      server.begin("/stall")
      assert server.row_in(:run, "/stall")
      id = server.slot.requests.first[:id]
      server.finish("/stall")
      event = event_of(server, :stall)
      assert_equal [id, server.pid], event.values_at(:request, :pid)
      assert_operator event[:time], :>=, 0.1
      assert_match(%r{\A/the/route test/support/sight_case\.rb:\d+ in .* < sight_case\.rb:\d+}, event[:text])
    end
  end

  # Nothing else runs that could tell: the event comes with a heartbeat.
  def test_a_stall_is_told_while_it_lasts
    serve("fiber", stall_after: 20, stall_report: 100) do |server|
      server.begin("/spin")
      assert server.row_in(:run, "/spin")
      event = event_of(server, :stall)
      assert_equal [event[:request]], server.slot.requests.map { |row| row[:id] }, "the request has ended"
      assert_match(%r{\Atest/support/sight_case\.rb:\d+ in .* < sight_case\.rb:\d+}, event[:text])
      assert event[:lasts]
      length_of_a_stall(server, event)
    end
  end

  # It computes for 3 s, and was noticed much earlier.
  def length_of_a_stall(server, event)
    server.finish("/spin")
    till = Time.now
    assert(Waits.eventually { event_of(server, :stall)[:lasts].nil? })
    over = event_of(server, :stall)
    assert_equal event[:at], over[:at]
    assert_includes (2.5..(till - over[:at] + 0.1)), over[:time]
    assert_operator over[:computed], :>, 0
    assert_operator over[:computed], :<, over[:time] + 0.1
    assert_operator server.slot.totals[:stall_time], :>, 2.5
  end

  # A place that stalls all the time leaves others their places in the ring.
  def test_a_place_is_noted_once_in_a_second
    seconds = 10.0
    noted = []
    slot = Struct.new(:noted) { def begin_event(kind, text, **facts) = noted << [kind, text, facts] }.new(noted)
    events = Abaca::StallEvents.new(slot, -> { seconds })
    3.times { events.call(0.2, {}, ["/app/a.rb:1:in `call'"], 7) }
    events.call(0.2, nil, ["/app/b.rb:1:in `call'"], nil)
    seconds += 1
    events.call(0.3, { "http.route" => "/x" }, ["/app/a.rb:1:in `call'"], 8)
    assert_equal [[:stall, "/app/a.rb:1 in `call'", { request: 7, time: 0.2 }],
                  [:stall, "/app/b.rb:1 in `call'", { request: nil, time: 0.2 }],
                  [:stall, "/x /app/a.rb:1 in `call'", { request: 8, time: 0.3 }]], noted
  end

  def test_a_request_that_is_cancelled
    %w[fiber thread guest:PlainScheduler].each do |mode|
      serve(mode, request_timeout: 1) do |server|
        server.begin("/lock")
        assert server.row_in(mode == "thread" ? shown_on_threads : :lock), mode
        id = server.slot.requests.first[:id]
        event = event_of(server, :cancel)
        assert_equal [id, "Abaca::DeadlineExceeded"], event.values_at(:request, :text), mode
        assert_operator event[:time], :>=, 1, mode
        server.finish("/lock")
      end
    end
  end

  private

  def shown_on_threads = Thread.respond_to?(:each_caller_location) ? :io : :run

  def event_of(server, kind)
    found = nil
    assert Waits.eventually { found = server.slot.events.find { |one| one[:kind] == kind } },
           "no event #{kind}: #{server.slot.events}"
    found
  end
end
