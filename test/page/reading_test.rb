# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "abaca"
require "support/page_writer"

# What Abaca::Page reads in the areas of its slots. Another process writes there.
class PageReadingTest < Minitest::Test
  ALL = %i[requests states loops routes series events kept clients totals].freeze

  def setup
    @page = Abaca::Page.create(slots: 3, rows: 6000, queued: 100)
    @slot = @page[1].claim
    @slot.state = :serving
  end

  def teardown = @page.close

  def write(*arguments, slot: 1) = PageWriter.write(Process.pid, slot, *arguments)

  def test_nothing_yet
    (ALL - %i[totals states]).each { |method| assert_empty @slot.public_send(method), method.to_s }
    assert_empty @slot.states
    assert_empty @slot.history(:seconds)
    assert_equal 0, @slot.totals[:ended]
    assert_equal "history(:seconds) or history(:tens), not :days",
                 assert_raises(ArgumentError) { @slot.history(:days) }.message
  end

  def test_requests_in_flight
    write "scene"
    oldest, newer = @slot.requests
    assert_equal [9, :db, :queued, "/waits"], oldest.values_at(:id, :state, :mode, :path)
    assert_equal [8, :db, :fiber, :answers], newer.values_at(:id, :state, :mode, :phase)
    assert_equal ["GET", "/reports/:id", "10.0.0.8", "10.0.0.9:5432", nil],
                 newer.values_at(:method, :route, :peer, :waits_for, :status)
    assert_equal %i[queue run db], newer[:sums].keys
    assert_in_delta newer[:age], newer[:sums].values.sum, 0.000_001
    assert_in_delta newer[:since], newer[:sums][:db], 0.000_001
    assert_equal({ db: 2 }, @slot.states)
    assert_equal [9], @slot.requests(most: 1).map { |request| request[:id] }
    refute_includes newer.keys, :waits
    (at, seconds, state, peer), = @slot.requests(waits: true).last[:waits]
    assert_equal [0.0, :queue, nil], [at, state, peer]
    assert_in_delta 0.010, seconds, 0.002
  end

  # What a client sends comes out as it was: whoever shows it escapes it.
  def test_hostile_bytes
    write "scene"
    path = @slot.requests.last[:path]
    assert_equal "/<b>\xFF\e[31m".b, path
    assert_equal Encoding::BINARY, path.encoding
  end

  def test_requests_that_have_ended
    write "scene"
    kept, = @slot.kept
    assert_equal [7, 0, %i[slow failed], 500, "/reports/7"], kept.values_at(:id, :number, :reasons, :status, :path)
    assert_in_delta Time.now.to_f, kept[:ended_at].to_f, 60
    assert_equal([:db, "10.0.0.9:5432"], kept[:waits].last.last(2))
    route, = @slot.routes
    assert_equal ["/reports/:id", 1, 1, 0], route.values_at(:route, :requests, :errors, :stalls)
    assert_in_delta kept[:sums][:db], route[:sums][:db], 0.000_001
    assert_equal [1, 1, 1], @slot.totals.values_at(:ended, :failed, :kept)
  end

  def test_one_request
    write "scene"
    found = @slot.request(8)
    assert_equal [8, "10.0.0.9:5432", "/<b>\xFF\e[31m".b], found.values_at(:id, :waits_for, :path)
    assert_equal :queue, found[:waits].first[2]
    assert_equal 9, @slot.request(9)[:id]
    assert_nil @slot.request(10)
    @slot.claim
    assert_nil @slot.request(8)
  end

  def test_requests_counted
    write "scene"
    found = @slot.tally
    assert_equal({ db: 2 }, found[:states])
    assert_equal [2, 1], [found[:waits].sum { |one| one[2] }, @slot.claims]
    assert_includes found[:waits].map { |one| one.first(2) }, [:db, "10.0.0.9:5432"]
    sums = @slot.requests.map { |one| one[:sums][:db] }
    assert_in_delta sums.sum, found[:sums][:db], 0.05
    assert_in_delta sums.max, found[:waits].map(&:last).max, 0.05
    @slot.claim
    assert_equal [{ states: {}, sums: {}, waits: [] }, 2], [@slot.tally, @slot.claims]
  end

  def test_series
    write "scene"
    request, queue = @slot.series
    assert_equal [:request, "/reports/:id", "GET", 500, 1],
                 request.values_at(:kind, :route, :method, :status, :count)
    assert_equal [15, 1, 1], [request[:counts].size, request[:counts].sum, request[:buckets].values.sum]
    assert_equal [:queue, nil, nil, nil], queue.values_at(:kind, :route, :method, :status)
    assert_equal [1, 0], [queue[:counts][0], queue[:counts][1]]
    assert_in_delta 0.003, queue[:sum], 0.000_001
    assert_includes 0.003..0.0033, Abaca::Page::Times.quantile(queue, 0.5)
  end

  def test_a_loop_that_stalls
    write "scene"
    line, = @slot.loops
    assert_equal [0, :main, :stalled, 8, 77], line.values_at(:index, :kind, :state, :request, :tid)
    assert_includes 0.8..60.0, line[:since]
    assert_in_delta 0.1, line[:sums][:away], 0.05
    assert_in_delta 0.1, @slot.totals[:loops][:away], 0.05
  end

  # A worker's page that has begun anew has counted less than before: nothing is taken off for it.
  def test_latency_of_counters_that_fell
    before = { least: 1, most: 1, count: 9, buckets: { 3 => 7 } }
    latency = Abaca::Sight::Latency.new.add({ least: 0, most: 0, count: 2, buckets: { 3 => 2 } }, before)
    assert_predicate latency, :empty?
    assert_equal 2, latency.add({ least: 1, most: 1, count: 11, buckets: { 3 => 7 } }, before).size
  end

  def test_events_clients_history
    write "scene"
    event, = @slot.events
    assert_equal [0, :stall, 8, 0.8, 42, "app/reports.rb:41"],
                 event.values_at(:number, :kind, :request, :time, :pid, :text)
    client, = @slot.clients
    assert_equal ["10.0.0.7", 1, 0, 1000, 1, 1, 0],
                 client.values_at(:address, :requests, :over, :bytes, :open, :slow, :errors)
    first, second = @slot.history(:seconds)
    assert_equal [3, 70, 120], first.values_at(:requests, :db, :rss)
    assert_includes 20_000..22_000, first[:p99]
    assert_equal [15, 0], [second[:tick] - first[:tick], second[:requests]]
    assert_in_delta Time.now.to_f - 15, second[:at].to_f, 5
    assert_equal [3, 70], @slot.history(:tens).first.values_at(:requests, :db)
    assert_equal [second], @slot.history(:seconds, most: 20)
  end

  # `most` counts back from the second that runs.
  def test_the_last_seconds_of_history
    write "scene"
    tick = @slot.history(:seconds).last[:tick]
    second = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC).to_i }
    begun = found = nil
    until begun && begun == second.call
      begun = second.call
      found = [0, 1].map { |more| @slot.history(:seconds, most: begun - tick + more).map { |record| record[:tick] } }
    end
    assert_equal [[], [tick]], found
  end

  def test_events_that_ruby_writes
    need_platform(:memfd)
    300.times { |i| @slot.note(:mark, "deploy #{i}") }
    @page[2].claim.note(:death, "killed by \xFF" + ("x" * 200), pid: 4711, time: 1.5, request: 3, status: 503)
    assert_equal 256, @slot.events.size
    assert_equal [299, "deploy 299", Process.pid], @slot.events.first.values_at(:number, :text, :pid)
    assert_equal [44, "deploy 44"], @slot.events.last.values_at(:number, :text)
    death, = @page[2].events
    assert_equal [:death, 4711, 1.5, 3, 503, 80],
                 death.values_at(:kind, :pid, :time, :request, :status).push(death[:text].bytesize)
    [-1, Float::NAN, 1e300].each { |time| @slot.note(:mark, time: time) }
    assert_equal [nil] * 3, @slot.events.first(3).map { |event| event[:time] }
    assert_equal ":deploy is no kind of event", assert_raises(ArgumentError) { @slot.note(:deploy) }.message
    seen = Abaca::Page.of(Process.pid)
    assert_raises(Abaca::Error) { seen[1].note(:mark) }
    assert_equal 256, seen[1].events.size
    seen.close
  end

  # What is in flight goes with the process, what was counted stays.
  def test_the_next_process
    write "scene"
    counted = %i[routes series events kept totals].to_h { |method| [method, @slot.public_send(method)] }
    @slot.claim
    assert_equal [[], {}, [], []], [@slot.requests, @slot.states, @slot.loops, @slot.clients]
    counted.each { |method, before| assert_equal before, @slot.public_send(method), method.to_s }
    write "scene"
    assert_equal [2, 2, 2], [@slot.totals[:ended], @slot.series.first[:count], @slot.routes.first[:requests]]
    @slot.state = :ended
    assert_empty @slot.requests
    assert_equal 2, @slot.totals[:ended]
  end

  def test_all_slots_together
    write_within_a_second
    assert_equal [[9, 8, 9, 8].sort, [1, 2]], [@page.requests.map { |one| one[:id] }.sort,
                                               @page.requests.map { |one| one[:slot] }.uniq.sort]
    assert_equal 3, @page.requests(most: 3).size
    assert_equal({ db: 4 }, @page.states)
    assert_equal [[2, 2]], @page.routes.map { |route| route.values_at(:requests, :errors) }
    assert_equal [2, 2, 2],
                 [@page.series[0][:count], @page.series[0][:counts].sum, @page.series[0][:buckets].values.sum]
    assert_equal [2, 2000], @page.clients.first.values_at(:requests, :bytes)
    assert_equal [2, 2, 2, 2], [@page.totals[:ended], @page.events.size, @page.kept.size, @page.loops.size]
    assert_equal [6, 140], @page.history(:seconds).first.values_at(:requests, :db)
    assert_equal({ db: 2 }, @page[2].states)
  end

  # Two processes, which write into the history's records of the same seconds.
  def write_within_a_second
    loop do
      second = Process.clock_gettime(Process::CLOCK_MONOTONIC, :second)
      @page[2].claim
      write "scene"
      write "scene", slot: 2
      return if second == Process.clock_gettime(Process::CLOCK_MONOTONIC, :second)

      teardown
      setup
    end
  end

  def test_series_between_two_looks
    write "scene"
    before = @slot.series.first
    @slot.claim
    write "scene"
    since = Abaca::Page::Times.since(@slot.series.first, before)
    assert_equal [1, 1, 1], [since[:count], since[:counts].sum, since[:buckets].values.sum]
    nothing = Abaca::Page::Times.since(before, before)
    assert_empty nothing[:buckets]
    assert_nil Abaca::Page::Times.quantile(nothing, 0.5)
  end

  def test_from_outside
    write "scene"
    seen = Abaca::Page.of(Process.pid)
    assert_equal [9, 8], seen.requests.map { |request| request[:id] }
    assert_equal @slot.totals, seen[1].totals
    seen.close
    ALL.each { |method| assert_raises(IOError) { seen.public_send(method) } }
  end

  # Whatever a fault has left: every answer is bounded, and well formed.
  def test_garbage
    @page.close
    @page = Abaca::Page.create(slots: 2, rows: 200, queued: 100)
    @slot = @page[1].claim
    20.times do |seed|
      write "garbage", seed
      check_requests @slot.requests(waits: true) + @slot.kept
      assert_operator @slot.requests.size, :<=, 300
      assert_operator @slot.events.size, :<=, 256
      assert_operator @slot.routes.size, :<=, 65
      assert_operator @slot.series.size, :<=, 512
      assert_operator @slot.clients.size, :<=, 64
      assert_operator @slot.loops.size, :<=, 64
      assert_operator @slot.history(:tens).size + @slot.history(:seconds).size, :<=, 2760
      assert_kind_of Integer, @slot.totals[:ended]
      @slot.claim
      assert_empty @slot.requests
    end
  end

  def check_requests(requests)
    requests.each do |request|
      assert_operator request[:path].bytesize, :<=, 128
      assert_kind_of Symbol, request[:state]
      assert_operator request[:waits].size, :<=, 32
    end
  end

  # Even a look would take memory.
  def test_slots_that_nobody_has_had
    need_platform(:proc)
    @page.close
    @page = Abaca::Page.create(slots: 64)
    (ALL + %i[series totals]).each { |method| @page.public_send(method) }
    %i[seconds tens].each { |width| assert_empty @page.history(width) }
    GC.start
    assert_operator File.stat(Abaca::Page.place(Process.pid)).blocks * 512, :<=, 65 * 4096
  end

  # Only rows in use cost, and 5,000 of them no more than 5 ms: here twice that, for a machine that is slow.
  def test_what_a_look_costs
    need_platform(:memfd)
    write "rows", 5000
    assert_equal 5000, @slot.requests.size
    assert_operator cpu { @slot.states }, :<, 0.005
    assert_operator cpu { @slot.tally }, :<, 0.005
    assert_operator cpu { @slot.request(4_000) }, :<, 0.005
    assert_operator cpu { @slot.requests(most: 100) }, :<, 0.010
    @slot.claim
    assert_operator cpu { @slot.requests }, :<, 0.001
  end

  # 64 routes, two methods, two statuses, four workers: what /metrics is made of. It may take 5 ms.
  def test_what_all_series_cost
    need_platform(:memfd)
    page = Abaca::Page.create(slots: 4)
    @page.close
    @page = page
    4.times { |slot| @page[slot].claim && write("series", 64, slot: slot) }
    series = @page.series
    assert_equal [256, 256_000], [series.size, series.sum { |one| one[:count] }]
    assert_equal 4000, @page[0].series.first[:count] * 16
    assert_operator cpu { @page.series }, :<, 0.010
  end

  def cpu
    Array.new(5) do
      start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      yield
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start
    end.min
  end
end
