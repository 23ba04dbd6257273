# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"
require "support/fake_page"

# Pages turned into screens.
class SightScreensTest < Minitest::Test
  Sight = Abaca::Sight
  SERIES = { kind: :request, route: "/items/:id", method: :GET, status: 200, count: 0, sum: 0.0, least: 0, most: 0,
             buckets: {} }.freeze

  def setup
    @slots = Array.new(2) { |i| FakePage::Slot.new(index: i, pid: i.zero? ? Process.pid : Process.ppid) }
    @page = FakePage.new(*@slots)
    @sight = Sight.new(@page, master: Process.pid)
  end

  def request(id, **given)
    { id:, age: id.to_f, since: 0.5, state: :db, mode: :fiber, phase: :called, method: "GET", path: "/items/#{id}",
      route: "/items/:id", peer: "10.0.0.#{id}", waits_for: "10.0.9.9:5432", status: nil,
      sums: { run: 0.25, db: id - 0.25 },
      waits: [[0.1, 0.4, :pool, nil]], **given }
  end

  # Looks, lets the block change the page, and looks again.
  def look
    @sight.look
    yield if block_given?
    sleep 0.05
    @sight.look
  end

  def cells(screen, *keys) = screen.rows.map { |row| row.cells.values_at(*keys) }

  def overview(...) = @sight.overview(look(...)).to_h

  def test_rates_are_differences
    @slots.each { |slot| slot.series = [SERIES.merge(count: 1000, buckets: { 24 => 1000 })] }
    found = overview do
      @slots[0].totals = FakePage::TOTALS.merge(ended: 500)
      @slots[0].series = [SERIES.merge(count: 1099, buckets: { 24 => 1000, -53 => 50, -26 => 49 }),
                          SERIES.merge(status: 500, count: 1, buckets: { 0 => 1 })]
    end
    assert_includes 500..10_000, found[:rate]
    assert_in_epsilon 0.01, found[:p50], 0.09
    assert_in_epsilon 0.1, found[:p95], 0.09
    assert_in_delta 1.0, found[:failed]
  end

  # A server that turns nine of ten away is not healthy: what never reached the app counts.
  def test_rejections_count_in_rates_and_shares
    @slots[0].series = [SERIES]
    found = look do
      @slots[0].series = [SERIES.merge(count: 9, buckets: { 24 => 9 }),
                          SERIES.merge(status: 500, count: 1, buckets: { 0 => 1 })]
      @slots[0].totals = FakePage::TOTALS.merge(ended: 10)
      @slots[0].figures = FakePage::FIGURES.merge(requests: 40, rejected: { queue_full: 60, queue_timeout: 30 })
      @page.sums = @slots[0].figures # 30 of the 40 were taken, and then rejected
    end
    overview = @sight.overview(found)
    assert_in_epsilon 100 / found.seconds, overview.to_h[:rate]
    assert_in_epsilon 90 / found.seconds, overview.to_h[:rejected]
    assert_in_delta 91.0, overview.to_h[:failed]
    assert_equal %i[queue_full queue_timeout], overview.to_h[:reasons]
    marked = overview.lines.first.select { |piece| piece.mark == :alarm }.map(&:text)
    assert_equal ["rejected ", "5xx 91.0%"], [marked[0][/\Arejected /], marked[1]]
    assert_match(%r{ r/s queue_full, queue_timeout\z}, marked[0])
    rows_with_rejections(found)
  end

  def rows_with_rejections(found)
    row = @sight.screen(:workers, found).rows.find { |one| one.cells[:worker].zero? }
    assert_in_epsilon 100 / found.seconds, row.cells[:rate]
    assert_in_epsilon 90 / found.seconds, row.cells[:rejected]
    assert_equal :alarm, row.mark
    rows = @sight.screen(:routes, found).rows
    assert_equal ["(rejected: queue_full)", "(rejected: queue_timeout)"], rows.map(&:id).sort
    assert_equal [[100.0, :alarm]] * 2, rows.map { |one| [one.cells[:failed], one.mark] }
    assert_in_epsilon 90 / found.seconds, rows.sum { |one| one.cells[:rate] }
  end

  # What is too short for the first bucket, or too long for the last one, counts as all others do.
  def test_times_beyond_the_buckets
    found = overview { @slots[0].series = [SERIES.merge(count: 100, least: 60, buckets: { -26 => 30 }, most: 10)] }
    assert_equal [2.0**-14, 2.0**7], found.values_at(:p50, :p95)
    assert_operator found[:p99], :>, 100
  end

  def test_nothing_has_happened
    found = overview
    assert_equal [0.0, nil, 0.0, 2, 2], found.values_at(:rate, :p50, :failed, :ready, :workers)
    assert_empty found[:stalls]
    assert_equal({}, found[:states])
  end

  def test_the_mean_number_in_each_state
    @slots[1].rows = [request(1)]
    assert_equal({ db: 1.0 }, @sight.look.means)
    found = look { @slots.each { |slot| slot.totals = FakePage::TOTALS.merge(sums: { db: 10.0, run: 0.0 }) } }
    assert_in_epsilon 20.0 / found.seconds, found.means[:db]
    assert_in_delta 0.0, found.means[:run]
  end

  # A counter that falls, as that of a new process, is not a negative rate.
  def test_a_new_process_begins_at_nothing
    @slots[0].figures = FakePage::FIGURES.merge(rejected: { queue_full: 1000 })
    found = look do
      @slots[0].figures = FakePage::FIGURES.merge(rejected: { queue_full: 5 })
      @slots[0].started_at = Time.now
    end
    rate, = cells(@sight.screen(:workers, found, sort: :worker, turned: true), :rate).flatten
    assert_in_epsilon 5 / found.seconds, rate
  end

  def test_limits_that_are_near_are_marked
    @slots.each { |slot| slot.process = { places: 50, queue_most: 5 } }
    marks = lambda do |in_app|
      @slots[0].figures = FakePage::FIGURES.merge(in_app:, waiting: 1)
      pieces = @sight.overview(@sight.look).lines.flatten
      pieces.select { |piece| piece.text.start_with?("in app", "queue") }.to_h(&:to_a)
    end
    assert_equal({ "in app 84/100" => nil, "queue 1/10" => nil }, marks.call(84))
    assert_equal({ "in app 85/100" => :alarm, "queue 1/10" => nil }, marks.call(85))
    @slots.each { |slot| slot.process = { places: 50, queue_most: nil } }
    assert_equal({ "in app 84/100" => nil, "queue 1" => nil }, marks.call(84))
    @slots.each { |slot| slot.process = { places: nil, queue_most: nil } }
    assert_equal({ "in app 84" => nil, "queue 1" => nil }, marks.call(84))
  end

  def test_a_loop_that_is_held
    @slots[1].rows = [request(3)]
    @slots[1].loops = [{ index: 0, state: :stalled, request: 3, since: 0.41, ticks: 9, tid: 12, kind: :main },
                       { index: 1, state: :busy, request: nil, since: 0.1, ticks: 9, tid: 13, kind: :main }]
    @page.events = [{ kind: :stall, slot: 1, number: 1, request: 2, at: Time.now, text: "other.rb:1" },
                    { kind: :stall, slot: 1, number: 0, request: 3, at: Time.now, text: "app/reports.rb:41 in `sum'" }]
    found = look
    stall, = @sight.overview(found).stalls
    assert_equal "STALL  worker 1  410ms  GET /items/3  app/reports.rb:41 in `sum'  1 other loop goes on", stall.line
    # What the process itself says is of now.
    found.places = { "1.3" => "app/reports.rb:44 in `rows'" }
    assert_equal ["STALL  worker 1  410ms  GET /items/3  app/reports.rb:44 in `rows'  1 other loop goes on"],
                 @sight.overview(found).stalls.map(&:line)
    assert_equal [["app/reports.rb:44 in `rows'"]], cells(@sight.screen(:requests, found), :place)
    found.places = { "1.3" => "pending" }
    assert_match(%r{app/reports\.rb:41}, @sight.overview(found).stalls.first.line)
    assert_equal [[:stalled, "/items/3"], [:busy, nil]], cells(@sight.screen(:fibers, found), :state, :path)
    assert_equal [:alarm, nil], @sight.screen(:fibers, found).rows.map(&:mark)
    assert_equal({ worker: 1, age: 0.41, method: "GET", path: "/items/3" },
                 @sight.to_h(found)[:overview][:stalls].first.slice(:worker, :age, :method, :path))
  end

  # What keeps a loop is not in its sums before it lets go.
  def test_a_loop_that_is_held_is_full
    since = ->(age) { [{ index: 0, state: :stalled, request: 3, since: age, ticks: 9, tid: 12, kind: :main }] }
    @slots[1].loops = since.call(5.0)
    found = look { @slots[1].loops = since.call(5.04) }
    row = @sight.screen(:workers, found).rows.find { |one| one.cells[:worker] == 1 }
    assert_in_epsilon 4.0 / found.seconds, row.cells[:busy]
  end

  def test_a_worker_without_a_heartbeat
    @slots[0].beat_age = 12.0
    assert_equal ["STALL  worker 0  12s  process #{Process.pid} gives no heartbeat"], overview_stalls
    @slots[0].state = :booting
    assert_empty overview_stalls
  end

  def overview_stalls = @sight.overview(@sight.look).stalls.map(&:line)

  def test_a_process_that_is_stopped
    need_platform(:proc)
    pid = Process.spawn("sleep 60")
    Process.kill(:STOP, pid)
    @slots[0].pid = pid
    assert(eventually { @sight.overview(@sight.look).to_h[:stopped] == [pid] })
    found = @sight.look
    assert_equal 1, @sight.overview(found).to_h[:ready]
    row = @sight.screen(:workers, found).rows.find { |one| one.cells[:pid] == pid }
    assert_equal %i[stopped alarm], [row.cells[:state], row.mark]
  ensure
    Process.kill(:KILL, pid) && Process.wait(pid) if pid
  end

  def test_requests_are_sorted_and_filtered
    @slots[0].rows = [request(1), request(5, path: "/Reports", state: :pool)]
    @slots[1].rows = [request(3, method: "POST")]
    found = look
    ids = ->(**options) { cells(@sight.screen(:requests, found, **options), :age).flatten.map(&:to_i) }
    assert_equal [5, 3, 1], ids.call
    assert_equal [1, 3, 5], ids.call(turned: true)
    assert_equal [3, 5, 1], ids.call(sort: :method)
    assert_equal [5], ids.call(filter: "rePOrts")
    assert_equal [5], ids.call(filter: "pool")
    assert_equal [3], ids.call(worker: 1)
    assert_equal [5, 3, 1], ids.call(sort: :nonsense)
    assert_empty ids.call(filter: "\xff")
    assert_equal [3, 1], [@sight.screen(:requests, found).total, @sight.screen(:requests, found, worker: 1).total]
  end

  def test_many_requests_are_bounded
    @slots[0].rows = Array.new(3_000) { |i| request(i) }
    screen = @sight.screen(:requests, look)
    assert_equal [3_000, 250], [screen.total, screen.rows.size]
    assert_in_delta 2_999, screen.rows.first.cells[:age]
    assert_equal 5, JSON.parse(screen.to_h(most: 5)[:rows]).size
  end

  # The page knows how much memory each worker had: nobody has to look for a minute first.
  def test_memory_that_grows_at_the_first_look
    started = @slots[0].started_at = @slots[1].started_at = Time.now - 60
    rss = ->(i, by) { { at: started + i, rss: i.negative? ? 5000 : 100 + (by * i).round } }
    @slots[0].records = { seconds: Array.new(62) { |i| rss.call(i - 2, 0.5) } }
    @slots[1].records = { seconds: Array.new(60) { |i| rss.call(i, 0.05) } }
    growths = cells(@sight.screen(:workers, @sight.look), :worker, :growth).to_h
    assert_in_delta 1800, growths[0], 20
    assert_nil growths[1]
    @slots[1].records[:tens] = Array.new(30) { |i| { at: started + (10 * i), rss: 100 + i } }
    assert_in_delta 360, cells(@sight.screen(:workers, @sight.look), :worker, :growth).to_h[1], 5
  end

  def test_routes
    route = { route: "/a", requests: 10, errors: 0, stalls: 1, sums: { run: 1.0, db: 1.0 } }
    @slots.each { |slot| slot.routes = [route] }
    found = look do
      @slots[0].routes = [route.merge(requests: 14, stalls: 2, sums: { run: 1.4, db: 2.0, pool: 0.2 }),
                          route.merge(route: "/b", requests: 1, stalls: 0, sums: { run: 0.4 })]
      @slots[0].series = [SERIES.merge(route: "/a", count: 4, buckets: { -8 => 4 }),
                          SERIES.merge(route: "/b", status: 503, count: 1, buckets: { 0 => 1 })]
    end
    rows = @sight.screen(:routes, found).rows
    assert_equal ["/a", "/b"], rows.map(&:id)
    a, b = rows.map(&:cells)
    assert_in_delta 0.1, a[:run]
    assert_in_delta 0.25, a[:db]
    assert_in_delta 80.0, a[:time]
    assert_in_epsilon 4 / found.seconds, a[:rate]
    assert_equal [3, 0.0, 100.0], [a[:stalls], a[:failed], b[:failed]]
    assert_in_epsilon 0.5, a[:p99], 0.05
    assert_equal [nil, :alarm], rows.map(&:mark)
  end

  def test_waits_by_what_they_are_for
    @slots[0].rows = [request(1), request(2, since: 1.5), request(3, state: :http, waits_for: "10.0.0.3:80")]
    @slots[1].rows = [request(4, state: :pool, waits_for: nil), request(5, state: :run, waits_for: nil)]
    found = @sight.screen(:waits, look)
    assert_equal [[:db, nil, 2, 1.5], [:db, "10.0.9.9:5432", 2, 1.5], [:http, nil, 1, 0.5],
                  [:http, "10.0.0.3:80", 1, 0.5], [:pool, nil, 1, 0.5]],
                 cells(found, :kind, :target, :now, :longest).sort_by { |row| row.first(2).map(&:to_s) }
    assert_equal :db, found.rows.first.cells[:kind]
  end

  def test_clients
    client = { address: "10.0.0.1", open: 2, requests: 100, bytes: 0, slow: 0, errors: 0 }
    @slots.each { |slot| slot.clients = [client] }
    found = look { @slots[0].clients = [client.merge(requests: 110, bytes: 5 * 1024 * 1024, errors: 3)] }
    row, = @sight.screen(:clients, found).rows
    assert_equal ["10.0.0.1", 4, 3], row.cells.values_at(:address, :open, :errors)
    assert_in_epsilon 10 / found.seconds, row.cells[:rate]
    assert_in_epsilon 5 / found.seconds, row.cells[:bytes]
  end

  def test_events_newest_first
    @page.events = [{ kind: :boot, slot: 0, number: 0, at: Time.at(10), text: "a" },
                    { kind: :stall, slot: 1, number: 1, at: Time.at(20), time: 0.3, lasts: true, text: "b" }]
    assert_equal [["at least: b"], ["a"]], cells(@sight.screen(:events, look), :text)
    assert_equal [["a"]], cells(@sight.screen(:events, look, worker: 0), :text)
  end

  def test_one_request_in_detail
    @slots[0].rows = [request(4)]
    @slots[0].kept = [request(3, status: 500, age: 3.0)]
    found = look
    worker = found.now.there.first
    lines = @sight.detail(found, worker, 4).lines
    assert_equal ["GET /items/4", "age 4.0s  now db for 500ms",
                  "id 4  route /items/:id  client 10.0.0.4  mode fiber  phase called"], lines.first(3)
    assert_includes lines, "db            3.8s  93.8%  ############################"
    assert_equal ["   100ms ###...........................    400ms  pool",
                  "    3.5s ..........................####    500ms  db 10.0.9.9:5432"], lines.last(2)
    ended = @sight.detail(found, worker, 3)
    assert_equal ["age 3.0s  ended", 1], [ended.lines[1], ended.waits.size]
    assert_empty ended.to_h[:stalls]
    assert_nil @sight.detail(found, worker, 99)
  end

  # What a proxy has kept it for is before its age, and the parts make up a whole all the same.
  def test_where_its_time_went_are_shares_of_the_whole
    @slots[0].rows = [request(4, sums: { proxy: 12.0, db: 3.0, run: 1.0 })]
    found = look
    lines = @sight.detail(found, found.now.there.first, 4).lines
    shares = lines.filter_map { |line| line[/\A\w+ +\S+ +(\S+)%/, 1]&.to_f }
    assert_equal [75.0, 18.8, 6.2], shares
  end

  # When others have kept the loop stands behind the waits; its own stall does not.
  def test_stalls_of_others_behind_a_request
    ended_at = Time.at(1000)
    stalls = [[998.5, 2.0, 7, "a.rb:1"], [997.5, 0.5, 8, "b.rb:2\e[2J"], [997.4, 0.1, 3, "own"],
              [995.5, 0.5, 9, "before"], [1002, 1.0, 9, "after"]]
    @slots[0].events = stalls.map { |at, time, id, text| { kind: :stall, at: Time.at(at), time:, request: id, text: } }
    @slots[0].events << { kind: :gc, at: Time.at(998), time: 0.5 }
    @slots[0].kept = [request(3, age: 3.0, ended_at:, waits: [[2.7, 0.3, :gc, nil]])]
    found = look
    detail = @sight.detail(found, found.now.there.first, 3)
    assert_equal [[0.5, 0.5, 8], [1.5, 1.5, 7]],
                 detail.to_h[:stalls].map { |one| [one[:at].round(3), one[:time].round(3), one[:request]] }
    assert_equal ["    2.7s .....:::::.....::::::::::::%%%    300ms  gc", "", "others that have kept its loop (:)",
                  "   500ms    500ms  request 8  b.rb:2\\x1B[2J", "    1.5s     1.5s  request 7  a.rb:1"],
                 detail.lines.last(5)
  end

  def test_no_worker_at_all
    @slots.each { |slot| slot.state = :empty and slot.pid = nil }
    found = look
    assert_equal [0, 0], @sight.overview(found).to_h.values_at(:ready, :workers)
    Sight::SCREENS.each_key { |name| assert_empty @sight.screen(name, found).rows }
  end

  def test_every_column_has_its_key_in_every_row
    @slots[0].rows = [request(1)]
    @slots[0].loops = [{ index: 0, state: :busy, request: 1, since: 0.1, ticks: 9, tid: 13, kind: :main }]
    @slots[0].routes = [{ route: "/a", requests: 1, errors: 0, stalls: 0, sums: { run: 1.0 } }]
    @slots[0].clients = [{ address: "10.0.0.1", open: 2, requests: 100, bytes: 0, slow: 0, errors: 0 }]
    @page.events = [{ kind: :boot, slot: 0, number: 0, at: Time.at(10), text: "a" }]
    found = look
    Sight::SCREENS.each do |name, screen|
      rows = @sight.screen(name, found).rows
      refute_empty rows, name
      keys = screen.columns.map(&:key)
      assert_empty keys - rows.flat_map { |row| row.cells.keys }, name
      assert_includes keys, screen.sort
    end
  end

  # Whatever clients send, a look is one line of JSON.
  def test_json
    @slots[0].rows = [request(1, path: "/\xff\e[31m\n\u2028\"", age: Float::INFINITY)]
    @page.events = [{ kind: :boot, slot: 0, number: 0, at: Time.at(10), text: "\xfe" }]
    line = Sight::JSON.line(@sight.to_h(look))
    assert_equal 1, line.lines.size
    read = JSON.parse(line)
    assert_equal 1, read["v"]
    assert_equal Sight::SCREENS.keys.map(&:to_s), read["screens"].keys
    row, = read["screens"]["requests"]["rows"]
    assert_equal ["/\u{FFFD}\e[31m\n\u2028\"", "0.1"], row.values_at("path", "id")
    assert_equal "1970-01-01T00:00:10.000Z", read["screens"]["events"]["rows"].first["at"]
  end
end
