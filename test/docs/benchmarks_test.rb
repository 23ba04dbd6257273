# frozen_string_literal: true

require "test_helper"
require "rexml/document"
require_relative "../../bench/report/reporting"

# What `bin/bench report` writes: it agrees with the results, and says no more than they do.
class BenchmarksTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  R = Bench::Reporting

  def read(name) = File.read(File.join(ROOT, name))

  def book = @book ||= R::Book.new(last: read(R::Book::FIGURES))

  def run_of(**data)
    R::Run.new(file: "2026-01-02-000000-x.json", data: { "benchmark" => "x", **data.transform_keys(&:to_s) })
  end

  def bar(name, *rounds, **rest) = R::Bar.new(name: name, rounds: rounds, **rest)

  def chart(*bars, **rest)
    R::Chart.new(run: run_of(**rest.delete(:data).to_h), key: "k", title: "t", unit: "µs of CPU", bars: bars, **rest)
  end

  def test_the_files_are_those_of_the_results
    book.files(readme: read("README.md")).each do |name, text|
      assert text == read(name), "#{name}: run bin/bench report"
    end
  end

  # Each is shown somehow, and it is known which ones have no chart.
  def test_every_benchmark_has_a_reader
    names = Dir[File.join(ROOT, "bench/*.rb")].map { |path| File.basename(path, ".rb") }
    measuring = names.select { |name| read("bench/#{name}.rb").include?("Bench.main(") }
    known = [*R::Readers::ALL.keys, *R::Readers::PLAIN, *R::Readers::UNSHOWN, R::Suites::BENCHMARK]
    assert_empty measuring - known, "without a reader: give them one in bench/report/readers, or name them in PLAIN"
    assert_equal R::Readers::ALL.keys.sort, R::Scenarios.texts.keys.sort
  end

  def test_every_result_is_on_the_page
    runs = book.results.charts.map(&:run) + book.results.plain.map(&:run) + book.suites.map(&:run)
    assert_empty book.results.runs.map(&:benchmark) - runs.map(&:benchmark)
    book.results.charts.each { |chart| refute_empty chart.bars, chart.key }
  end

  def test_every_figure_of_the_sources_has_a_row
    rows = book.sources.flat_map(&:rows)
    assert_equal 4, book.sources.size
    assert_operator rows.size, :>=, 70
    rows.each { |row| refute_empty row.ours, row.what }
  end

  # What stands below each other is compared: "keep-alive, threads" and "keep-alive, Iodine".
  def test_figures_of_the_sources_that_are_compared_are_of_one_run
    rows = YAML.safe_load_file(R::Published::FILE).flat_map { |source| source["rows"] }
    rows = rows.select { |row| row["chart"] && !row["over"] }
    rows.group_by { |row| row["what"][/\A.+?(?=, |\z)/] }.each do |what, list|
      runs = list.filter_map { |row| book.results.find(row["chart"])&.run }
      assert_operator runs.uniq.size, :<=, 1, what
    end
  end

  def test_svg_is_well_formed
    pictures = [read(R::Book::PICTURE), *book.results.charts.map { |chart| R::Svg.new(chart).to_s }]
    pictures.each do |text|
      svg = REXML::Document.new(text).root
      assert_equal %w[title desc], svg.elements.to_a.first(2).map(&:name)
      refute_empty svg.elements["desc"].text
    end
  end

  HOSTILE = %(</text></svg><script>window.hit=1</script>|`*"'&\e[2J\u202e\n)

  def test_names_are_text
    svg = R::Svg.new(chart(bar(HOSTILE, 1, 2), bar("abaca", 2, 3), absent: { HOSTILE => HOSTILE })).to_s
    document = REXML::Document.new(svg)
    assert_empty REXML::XPath.match(document, "//*[local-name()='script']")
    refute_match(/[\e\u202e]/, svg)
    cell = R::Text.markdown(HOSTILE)
    refute_match(/(?<!\\)[|`*]|[<\e\n]/, cell)
  end

  def test_ratios_of_rounds
    ratio = R::Ratio.new(bar("a", 20, 22, 24), bar("b", 10, 11, 12))
    assert_equal [2, 2, 2], [ratio.value, ratio.low, ratio.high]
    assert_predicate ratio, :stated?
    refute_predicate R::Ratio.new(bar("a", 10, 12), bar("b", 10, 11)), :stated?
    refute_predicate R::Ratio.new(bar("a", 20), bar("b", 10)), :stated?
    refute_predicate R::Ratio.new(bar("a", 13, 15), bar("b", 10, 10)), :stated?
    assert_predicate R::Ratio.new(bar("a", 13, 15), bar("b", 10, 10), exact: true), :stated?
    assert_predicate R::Ratio.new(bar("a", 20), bar("b", 10), exact: true), :stated?
    refute_predicate R::Ratio.new(bar("a", 0, 0), bar("b", 1, 1)), :stated?
    refute_predicate R::Ratio.new(bar("a", 1, 1), bar("b", 0, 0)), :stated?
  end

  def test_a_spread_that_is_larger_than_the_difference
    refute_predicate R::Ratio.new(bar("a", 10, 14, 18), bar("b", 10, 10, 10)), :stated?
    assert_predicate R::Ratio.new(bar("a", 30, 20, 40), bar("b", 10, 10, 10)), :stated?
  end

  def test_what_a_chart_says
    assert_equal "Abaca leads with 10.0 µs; puma, the best of the others, has 2.00 times as much (20.0 µs).",
                 chart(bar("abaca", 10, 10), bar("puma", 20, 20)).sentence
    assert_equal "Abaca loses: puma has 10.0 µs; Abaca has 20.0 µs, 2.00 times as much.",
                 chart(bar("abaca", 20, 20), bar("puma", 10, 10)).sentence
    assert_equal "Abaca loses: puma has 20.0 µs, 2.00 times as much as Abaca (10.0 µs).",
                 chart(bar("abaca", 10, 10), bar("puma", 20, 20), better: :more).sentence
    assert_match(/cannot be told apart: the rounds' ratios reach from 0.91 to 1.09/,
                 chart(bar("abaca", 10, 12), bar("puma", 11, 11)).sentence)
    assert_match(/One round alone says nothing/, chart(bar("abaca", 10), bar("puma", 11)).sentence)
    assert_match(/ 2.00 times the floor and 1.25 times nginx, which is ahead\.\z/,
                 chart(bar("abaca", 10, 10), bar("limit", 5, 5), bar("nginx", 8, 8)).sentence)
    assert_match(/ It cannot be told from nginx\.\z/, chart(bar("abaca", 10, 12), bar("nginx", 11, 11)).sentence)
    assert_match(/ In every round it is 1\.10 to 2\.00 times nginx, which is ahead\.\z/,
                 chart(bar("abaca", 11, 20, 12), bar("nginx", 10, 10, 10)).sentence)
    assert_match(/ In every round it is 0\.50 to 0\.91 times nginx\.\z/,
                 chart(bar("abaca", 10, 10, 10), bar("nginx", 11, 20, 12)).sentence)
    assert_equal "check leads with 1.00 µs; option is next with 2.00 µs: 2.00 times.",
                 chart(bar("option", 2, 2), bar("check", 1, 1)).sentence
  end

  # By the rounds, as any other.
  def test_ratios_of_throughput
    Dir.mktmpdir do |folder|
      turns = ->(*rates) { rates.map { |rate| { p99: 1, p50: 1, worst: 1, requests: rate, microseconds: 1 } } }
      turns = { "abaca fiber": turns[12, 50], "abaca thread 5": turns[30, 31], "puma 5 threads": turns[10, 10] }
      result(folder, "1-modes", rows: [{ row: "c4", turns: turns }])
      path = File.join(folder, "published.yml")
      rows = ["abaca fiber", "abaca thread 5"].map do |name|
        { what: name, theirs: "1 x", chart: "modes/c4", bar: name, over: "puma 5 threads", as: "ratio" }
      end
      File.write(path, JSON.generate([{ name: "A", title: "t", where: "w", about: "a", rows: rows }]))
      found = R::Published.new(R::ResultsFolder.new(folder), file: path).sources.first.rows
      assert_equal ["the rounds differ more than these", "3.05 x"], found.map(&:ours)
    end
  end

  def test_nothing_has_no_ratio
    none = bar("abaca", 0)
    assert_equal "Abaca has 0 µs, puma 12 µs.", chart(none, bar("puma", 12), exact: true).sentence
    lost = chart(bar("abaca", 3), bar("puma", 0), exact: true)
    assert_equal "Abaca loses: puma has 0 µs, Abaca 3 µs.", lost.sentence
    assert_equal "Abaca and puma: 0 µs.", chart(none, bar("puma", 0), exact: true).sentence
    scenario = R::Scenario.new(name: "x", charts: [lost])
    assert_equal ["none there"], R::Behind.new([scenario]).ruby.map(&:by)
  end

  # The other checkout of a comparison is not a peer.
  def test_another_checkout
    found = chart(bar("abaca", 1, 1), bar("abaca bc69bd6", 2, 2), data: { against: "abaca bc69bd6" },
                                                                  absent: { "abaca bc69bd6 fiber" => "stalled" })
    assert_equal [%w[abaca], {}], [found.bars.map(&:name), found.absent]
  end

  def test_reasons_are_of_charts_that_there_are
    keys = book.results.charts.map(&:key)
    loads = R::ServersReader::TITLES.keys.map { |load| "servers/#{load}" }
    assert_empty R::Behind.reasons.keys - keys - loads
    assert_operator book.behind.reasons.keys.compact.size, :>=, 1
  end

  def test_reasons_have_known_parts
    reasons = YAML.safe_load_file(R::Behind::REASONS)
    reasons.each do |reason|
      assert_empty reason.keys - ["charts", *R::Behind::PARTS.keys]
      refute_empty reason.fetch("why")
    end
    keys = reasons.flat_map { |reason| reason.fetch("charts") }
    assert_equal keys.uniq, keys
  end

  # What they say by `bin/bench guard`.
  def test_reasons_quote_the_baseline
    rows = JSON.parse(read("bench/baseline.json")).values.first.fetch("rows")
    hello, tls, http2 = rows.values_at("hello", "tls", "http2").map do |row|
      row.transform_values { |count| R::Numbers.count(count) }
    end
    text = R::Behind.reasons.values.join(" ").squeeze(" ")
    ["A request takes #{hello["objects"]} objects and #{hello["instructions"]} instructions",
     "#{hello["instructions"]} instructions for a request, and #{tls["instructions"]} more",
     "A request makes #{http2["mallocs"]} mallocs, one of HTTP/1.1 makes #{hello["mallocs"]} (`bin/bench guard`)"]
      .each { |words| assert_includes text, words }
  end

  def test_reasons_say_what_it_would_take
    assert_match(/\A.+ Profile: .+ What it would take: .+\z/, R::Behind.reasons.fetch("relay/cpu"))
  end

  # A row without a reason is counted, wherever the table stands.
  def test_what_has_no_reason_is_said
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", **streams("abaca" => [1, 1], "puma" => [2, 2]))
      result(folder, "1-scheduler", contests: [{ ruby: "ruby 3.1.2", rows: { spawn: {
               abaca: { median_us: 2, wall_us: [2, 2] }, itsi: { median_us: 1, wall_us: [1, 1] }
             } } }])
      book = R::Book.new(folder: folder)
      assert_equal ["streaming/rate"], book.behind.unexplained.map { |row| row.chart.key }
      said = "No reason is known yet for 1 of these 2 rows."
      pages = [R::Page.new(book).to_s, R::Markdown.new(book).summary, R::Markdown.new(book).guide]
      pages.each { |text| assert_includes text, said }
    end
    assert_nil R::Behind.new([R::Scenario.new(name: "x", charts: [chart(bar("abaca", 1, 1), bar("puma", 2, 2))])]).gap
  end

  # Whatever the rounds differ by.
  def test_who_is_ahead_in_every_round
    own = bar("abaca", 11, 20, 12)
    of = ->(chart) { R::Behind.new([R::Scenario.new(name: "x", charts: [chart])]).others.map(&:by) }
    assert_equal ["1.10 to 2.00 x"], of[chart(own, bar("nginx", 10, 10, 10))]
    assert_equal ["1.10 to 2.00 x"], of[chart(bar("abaca", 10, 10, 10), bar("node", *own.rounds), better: :more)]
    assert_empty of[chart(own, bar("nginx", 10, 10, 15))]
    assert_empty of[chart(bar("abaca", 20), bar("nginx", 10))]
  end

  # A newer Ruby does not hide it, and an older one does not repeat it.
  def test_what_is_so_on_an_older_ruby
    row = ->(us) { { abaca: { median_us: us, wall_us: [us, us] }, itsi: { median_us: 4, wall_us: [4, 4] } } }
    Dir.mktmpdir do |folder|
      result(folder, "1-scheduler", contests: [{ ruby: "ruby 3.1.2", rows: { spawn: row[8], pipe: row[8] } },
                                               { ruby: "ruby 3.4.1", rows: { spawn: row[8], pipe: row[3] } }])
      titles = R::Book.new(folder: folder).behind.ruby.map(&:title)
      assert_equal ["100,000 tasks that do nothing", "Pipe round trip, 50 pairs (Ruby 3.1.2)"], titles.sort
    end
  end

  # A profile is for people.
  def test_what_is_not_on_the_page
    Dir.mktmpdir do |folder|
      result(folder, "1-profile", rows: [])
      assert_empty R::ResultsFolder.new(folder).runs
    end
  end

  # Whoever changes what a benchmark writes changes its reader.
  def test_a_result_of_another_shape
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", pieces: 1)
      error = assert_raises(ArgumentError) { R::ResultsFolder.new(folder).charts }
      assert_match(/1-streaming\.json cannot be read by .*StreamingReader/, error.message)
    end
  end

  def test_numbers
    shown = [0, 0.015, 0.5, 1.234, 9.996, 12.34, 99.96, 1234.5, -3].map { |value| R::Numbers.short(value) }
    assert_equal %w[0 0.015 0.50 1.23 10.0 12.3 100 1,235 -3], shown
  end

  def result(folder, name, **data)
    machine = { time: "2026-01-0#{name[/\d/]}T00:00:00Z", ruby: "ruby 3.1.2p20", cpu: "X" }
    data = { benchmark: name[/[a-z]+/], machine: machine, **data }
    File.write(File.join(folder, "#{name}.json"), JSON.generate(data))
  end

  def streams(rates) = { pieces: 1, turns: rates.transform_values { |list| list.map { |rate| { rate: rate } } } }

  def test_the_newest_run_with_others_counts
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", **streams("abaca" => [1, 1], "puma" => [2, 2]))
      result(folder, "2-streaming", **streams("abaca" => [3, 3], "puma" => [4, 4]))
      result(folder, "3-streaming", **streams("abaca" => [5, 5]))
      found = R::ResultsFolder.new(folder).charts
      assert_equal [[4, 3]], found.map { |chart| chart.bars.map(&:value) }
    end
  end

  def test_a_benchmark_without_a_reader
    Dir.mktmpdir do |folder|
      result(folder, "1-strange", deep: { HOSTILE => [{ us: 1 }, { us: 3 }] }, list: [1, 2], word: HOSTILE)
      plain, = R::ResultsFolder.new(folder).plain
      assert_includes plain.rows, ["deep / #{HOSTILE} / us", "2.00"]
      assert_includes plain.rows, ["list", "1, 2"]
      text = R::Book.new(folder: folder).then { |one| R::Page.new(one).to_s + R::Markdown.new(one).summary }
      assert_includes text, "strange"
      refute_match(/<script|[\e\u202e]/, text)
    end
  end

  # Beside a name stands what the run says of its turns.
  def test_what_was_disturbed
    rows = [{ "row" => "k, Ruby 3.1", "name" => "abaca", "turns" => 3, "disturbed" => [1, 2] },
            { "row" => "other", "name" => "abaca", "turns" => 3, "disturbed" => [] },
            { "row" => "k", "name" => "puma", "turns" => 3, "disturbed" => [], "client_at_its_limit" => true }]
    found = chart(bar("abaca", 1, 2), bar("puma", 2, 3), data: { account: { "rows" => rows } })
    assert_equal [" ~", " *"], found.bars.map { |one| found.mark(one) }
    assert_match(/2 of 9 turns disturbed/, found.facts)
    assert_includes R::Svg.new(found).to_s, "Abaca ~"
    assert_equal "", chart(bar("abaca", 1, 2)).mark(bar("abaca", 1))
  end

  # What a client can do is no figure of the server.
  def test_what_a_chart_says_if_the_client_was_at_its_limit
    rows = [{ "row" => "k", "name" => "abaca", "turns" => 2, "disturbed" => [], "client_at_its_limit" => true }]
    of = lambda do |unit|
      R::Chart.new(run: run_of(account: { "rows" => rows }), key: "k", title: "t", unit: unit, better: :more,
                   bars: [bar("abaca", 20, 20), bar("puma", 10, 10), bar("nginx", 5, 5)]).sentence
    end
    assert_equal "Abaca: 20.0 requests/s, puma: 10.0 requests/s. Abaca's client was busy all the time, so this is " \
                 "what the client can do.", of["requests/s"]
    assert_match(/\AAbaca leads with 20.0 MB/, of["MB per CPU second"])
  end

  # Whatever is drawn would be marked.
  def test_each_bar_has_its_turns_in_the_account
    book.results.runs.select { |run| run.data["account"] && R::Readers.any?(run) }.each do |run|
      data = Marshal.load(Marshal.dump(run.data))
      data["account"]["rows"].each { |row| row["disturbed"] = [*1..row["turns"]] }
      charts = R::Readers.charts(R::Run.new(file: run.file, data: data))
      bars = charts.flat_map { |chart| chart.bars.product([chart]) }
      unmarked = bars.select { |bar, chart| chart.mark(bar).empty? }
      assert_empty unmarked.map { |bar, chart| [chart.key, bar.name] }, run.file
    end
  end

  def test_a_run_of_all_scenarios
    Dir.mktmpdir do |folder|
      scenario = { name: "ab", state: "failed", seconds: 3, turns: 2, disturbed: 1, absent: { "ab: go": "no go" } }
      result(folder, "1-all", scenarios: [scenario, { name: "idle", state: "left out", reason: "why" }])
      book = R::Book.new(folder: folder)
      assert_equal [["ab", "failed", 3, 2, 1, "ab: go: no go"], ["idle", "left out", nil, nil, nil, "why"]],
                   book.suites.first.rows.map(&:to_a)
      [R::Page.new(book).to_s, R::Markdown.new(book).summary].each { |text| assert_includes text, "no go" }
      assert_empty book.results.plain
    end
  end

  # A report that is made again from the same results says the same.
  def test_what_has_changed
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", **streams("abaca" => [4, 4.2, 4.1], "puma" => [2, 2, 2]))
      first = R::Book.new(folder: folder)
      assert_predicate first.changes, :first?
      last = R::Figures.write(first.figures)
      assert_equal last, R::Figures.write(R::Book.new(folder: folder, last: last).figures)

      result(folder, "2-streaming", **streams("abaca" => [9, 9.6, 9.3], "puma" => [3, 3, 3]))
      result(folder, "3-objects", objects_per_request: { abaca: { "wrk's request": 9 } })
      2.times do
        book = R::Book.new(folder: folder, last: last)
        change, = book.changes.all
        assert_equal ["2.05 x", "3.10 x", "puma", "better"], change.to_a.drop(1)
        assert_equal ["objects/short"], book.changes.new.map(&:key)
        last = R::Figures.write(book.figures)
      end
    end
  end

  # Of two and two rounds that are the same, one of three pairs does not overlap.
  def test_too_few_rounds_for_a_change
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", **streams("abaca" => [4, 4.2], "puma" => [2, 2]))
      last = R::Figures.write(R::Book.new(folder: folder).figures)
      result(folder, "2-streaming", **streams("abaca" => [9, 9.6], "puma" => [3, 3]))
      changes = R::Book.new(folder: folder, last: last).changes.all
      assert_equal ["too few rounds"], changes.map(&:verdict)
    end
  end

  def test_what_cannot_be_compared
    Dir.mktmpdir do |folder|
      result(folder, "1-streaming", **streams("abaca" => [4, 4], "puma" => [2, 2]))
      result(folder, "1-upload", turns: { "abaca" => [{ length: { cpu: 1 } }], "puma" => [{ length: { cpu: 2 } }] })
      last = R::Figures.write(R::Book.new(folder: folder).figures)
      result(folder, "2-streaming", **streams("abaca" => [9, 9], "itsi" => [3, 3]))
      result(folder, "2-upload", turns: { "abaca" => [{ length: { cpu: 1 } }], "puma" => [{ length: { cpu: 9 } }] })
      changes = R::Book.new(folder: folder, last: last).changes.all
      assert_equal ["one round alone", "two runs, not comparable"], changes.map(&:verdict).sort
    end
  end

  # Of one benchmark: key => chart.
  def charts_of(benchmark, **data)
    run = R::Run.new(file: "1-#{benchmark}.json", data: JSON.parse(JSON.generate({ benchmark: benchmark, **data })))
    R::Readers.charts(run).to_h { |chart| [chart.key.split("/").last, chart] }
  end

  # One in any round matters.
  def test_requests_that_term_has_lost
    rounds = [{ tries: 10, answered: 90, lost: 0, unanswered: 1 }, { tries: 10, answered: 80, lost: 7, unanswered: 0 }]
    chart = charts_of("modes", rows: [{ row: "term", turns: { "abaca fiber" => rounds } }]).fetch("term")
    assert_equal [8, 170], [chart.ours.value, chart.ours.more["answered"]]
    assert_equal "Abaca fiber: 8 requests.", chart.sentence
  end

  # Who has done less is not compared.
  def test_streams_that_did_not_end
    turn = ->(complete) { { streams: 1000, complete: complete, events: 9, cpu: 40.0, p99: 9000, peak: 1 } }
    charts = charts_of("relay", streams: 1000, turns: { abaca: [turn[1000], turn[1000]], go: [turn[999], turn[1000]],
                                                        bun: [turn[1000], turn[512]] })
    charts.each_value do |chart|
      assert_equal %w[abaca go], chart.bars.map(&:name)
      assert_equal({ "bun" => "488 of 2,000 streams did not end" }, chart.absent)
    end
  end

  def burst(**lost) = { right: 9, wrong: 0, dropped: 0, unanswered: 0, wall: 9000, p50: 1, p99: 2, cpu: 1, **lost }

  def test_requests_of_a_burst_that_were_lost
    bursts = [burst(dropped: 2), burst(unanswered: 1, refused: 4), burst]
    chart = charts_of("waiting", requests: 9, upstream_delay_ms: 1, turns: { abaca: bursts }).fetch("wall")
    assert_equal 7, chart.ours.more["not right"]
    crowd = bursts.map { |one| { **one, peak: 1 } }
    chart = charts_of("modes", rows: [{ row: "crowd", turns: { abaca: crowd } }]).fetch("crowd")
    assert_equal 7, chart.ours.more["not right"]
  end

  # What is timed needs more than one round, whatever it is the sum of.
  def test_a_time_is_not_counted
    collected = ->(ms) { { time: ms, total_allocated_objects: 9 } }
    part = { body_bytes: 9, connections: 9, per_request_at_exit: { abaca: collected[1], puma: collected[3] } }
    of = lambda do |turns|
      charts_of("serializer", parts: { gets: { **part, turns: turns } }).fetch("gets-gc")
    end
    assert_match(/One round alone says nothing/, of[{ abaca: [{}, {}], puma: [{}, {}] }].sentence)
    rounds = ->(*times) { times.map { |time| { gc_us: time } } }
    assert_match(/leads with 1.50 µs/, of[{ abaca: rounds[1, 2], puma: rounds[3, 6] }].sentence)
    refute_match(/leads/, of[{ abaca: rounds[1, 5], puma: rounds[3, 3] }].sentence)
  end

  def test_a_readme_without_a_place
    assert_raises(ArgumentError) { R::Front.new(book.results).place("# Abaca\n") }
  end
end
