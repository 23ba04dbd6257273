# frozen_string_literal: true

# also: rubies

require "test_helper"
require "json"
require "rexml/document"
require "abaca"
require "abaca/control"

# A profile in all its forms.
class ProfileFormsTest < Minitest::Test
  FRAMES = ["app/reports.rb:41 in `sum'", "app/reports.rb:9 in `call'", "gems/rack.rb:3 in `call'"].freeze
  HOSTILE = %(</text><script>alert("1")</script>;&'\e[31m\n]]>\xFF)
  STACKS = [["GET /reports/:id", "db", [0, 1, 2], 0, 2.5, 125], ["GET /reports/:id", "pool", [1, 2], 1, 0.5, 25],
            [nil, "sleep", [], nil, 0.25, 3]].freeze

  # What two workers have told, and a third one has not.
  def profile(stacks = STACKS, frames = FRAMES)
    found = { seconds: 10.0, looks: 500, stacks:, frames: }
    Abaca::Profile.new(kind: "wait", seconds: 10.0).tap do |all|
      all.add(0, 4711, found)
      all.add(1, 4712, found)
      all.add(2, 4713, nil)
    end
  end

  # The same with names that an app, or a client, may have chosen to do harm.
  def hostile = profile([[HOSTILE, "db", [0], 0, 1.0, 5]], ["#{HOSTILE}:1 in `x'"])

  def text(format, profile = self.profile) = profile.form(format).text

  def test_what_is_merged
    assert_equal "requests waited for 6.5 s in 10.0 s, in 2 processes", profile.title
    assert_equal [5.0, 250], profile.merged.first.to_h.values_at(:seconds, :samples)
    assert_equal ["worker 2 (process 4713) has not answered in time"], profile.notes
  end

  def test_collapsed
    assert_equal <<~TEXT, text("collapsed")
      GET /reports/:id;gems/rack.rb:3 in `call';app/reports.rb:9 in `call';app/reports.rb:41 in `sum';[db] 5000000
      GET /reports/:id;gems/rack.rb:3 in `call';app/reports.rb:9 in `call';[pool] 1000000
      (other stacks);[sleep] 500000
    TEXT
  end

  # A line for each stack, and the frame of each stays one.
  def test_collapsed_and_hostile
    lines = text("collapsed", hostile).lines
    assert_equal 1, lines.size
    assert_equal 3, lines.first.split(";").size
    assert_match(/ 2000000\n\z/, lines.first)
    refute_match(/[\e\xFF]/n, lines.first.b)
  end

  def test_for_people
    lines = text("text").lines(chomp: true)
    assert_equal profile.title, lines[0]
    assert_equal "worker 2 (process 4713) has not answered in time", lines[1]
    assert_equal "SECONDS  SHARE  STATE  PLACE                       ROUTE", lines[3]
    assert_equal "  5.000  76.9%  db     app/reports.rb:41 in `sum'  GET /reports/:id", lines[4]
    assert_equal 7, lines.size
    assert_empty text("text", hostile).b.scan(/[^\x20-\x7e\n]/n)
  end

  def test_json
    found = JSON.parse(text("json"), symbolize_names: true)
    assert_equal [1, "wait", 10.0, 6.5], found.values_at(:v, :kind, :seconds, :total)
    assert_equal [false, false, true], found[:workers].map { |worker| worker[:pending] }
    assert_equal({ route: "GET /reports/:id", state: "db", place: FRAMES[0], seconds: 5.0, samples: 250,
                   frames: FRAMES },
                 found[:stacks].first)
    assert_equal 1, text("json", hostile).lines.size
  end

  # --- the flame chart ---

  def boxes(document) = REXML::XPath.match(document, "//*[@class='box']")

  def test_chart
    document = REXML::Document.new(text("svg"))
    names = boxes(document).map { |box| box.elements["text"].attributes["data-name"] }
    assert_equal ["all", "GET /reports/:id", *FRAMES.reverse, "[db]", "[pool]", "(other stacks)", "[sleep]"], names
    all, route, * = boxes(document)
    assert_equal %w[1200.0 0], all.attributes.values_at("data-w", "data-d").map(&:to_s).then { |w, d| [w, d] }
    assert_in_delta 1200 * 6.0 / 6.5, route.attributes["data-w"].to_f, 0.1
    assert_equal "GET /reports/:id: 6.0 s, 92.3%", route.attributes["aria-label"]
    assert_equal "GET /reports/:id: 6.0 s, 92.3%", route.elements["title"].text
    assert_match(%r{Longest: 5\.0 s db at app/reports\.rb:41}, document.elements["//desc"].text)
    assert_includes document.to_s, "worker 2 (process 4713) has not answered in time"
  end

  # Each box stands below the one that it is a part of.
  def test_boxes_are_nested
    boxes(REXML::Document.new(text("svg"))).each_cons(2) do |before, box|
      next unless box.attributes["data-d"].to_i > before.attributes["data-d"].to_i

      assert_operator box.attributes["data-x"].to_f, :>=, before.attributes["data-x"].to_f - 0.01
      assert_operator box.attributes["data-w"].to_f, :<=, before.attributes["data-w"].to_f + 0.01
    end
  end

  # The policy allows this script and this style, and nothing else; nothing is asked for.
  def test_chart_needs_nothing_from_elsewhere
    form = profile.form("svg")
    policy = form.fields.fetch("Content-Security-Policy")
    document = REXML::Document.new(form.text)
    script, style = %w[script style].map { |name| document.elements["//#{name}"].texts.map(&:value).join }
    [["script-src", script], ["style-src", style]].each do |name, code|
      assert_includes policy, "#{name} 'sha256-#{Digest::SHA256.base64digest(code)}'"
    end
    assert policy.start_with?("default-src 'none';")
    assert_empty form.text.scan(/\b(?:href|src|style|on\w+)=/)
    assert_equal ["http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"].sort,
                 form.text.scan(%r{https?://[^"]*}).uniq.sort
  end

  def test_hostile_names_in_the_chart
    text = text("svg", hostile)
    document = REXML::Document.new(text)
    assert_equal 1, REXML::XPath.match(document, "//script").size
    name = boxes(document)[1].elements["text"].attributes["data-name"]
    assert_equal %(</text><script>alert("1")</script>;&'\\x1B[31m\\x0A]]>\\xFF), name
  end

  def test_an_empty_profile
    empty = Abaca::Profile.new(kind: "stall", seconds: 0)
    assert_equal "requests kept their loops for 0 s so far, in 0 processes", empty.title
    assert_empty boxes(REXML::Document.new(text("svg", empty)))
    assert_equal "", text("collapsed", empty)
    assert_equal [], JSON.parse(text("firefox", empty))["threads"]
  end

  def test_a_chart_of_many_stacks_is_bounded
    frames = Array.new(20_000) { |i| "app/a.rb:#{i} in `m#{i}'" }
    stacks = Array.new(10_000) { |i| ["GET /", "db", [i, 10_000 + i], i, 0.001 * ((i % 7) + 1), 1] }
    began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    svg = text("svg", profile(stacks, frames))
    assert_includes 3_000..4_000, svg.scan('class="box"').size
    assert_operator svg.bytesize, :<, 4_000_000
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began, :<, 10
  end

  # --- Firefox profiler ---

  # All columns of a table are as long as it says.
  def assert_table(table, optional = [])
    columns = table.except("length", "weightType", *optional)
    assert_equal [table["length"]], columns.values.map(&:size).uniq, columns.keys.inspect
  end

  # Each index leads to something.
  def assert_indices(values, table)
    assert(values.compact.all? { |index| index.between?(0, table.size - 1) })
  end

  def test_firefox
    found = JSON.parse(text("firefox"))
    assert_equal [47, 28, "Abaca #{Abaca::VERSION}: #{profile.title}"],
                 found["meta"].values_at("preprocessedProfileVersion", "version", "product")
    states = found["meta"]["categories"].map { |category| category["name"] }
    assert_equal %w[Other db pool sleep], states
    assert_equal ["worker 0 (process 4711)", "worker 1 (process 4712)"], found["threads"].map { |one| one["name"] }
    found["threads"].each { |thread| check_thread(thread, states) }
  end

  def check_thread(thread, states)
    %w[samples stackTable frameTable funcTable markers resourceTable nativeSymbols].each do |name|
      assert_table(thread[name])
    end
    strings, samples, stacks, frames, funcs =
      thread.values_at("stringArray", "samples", "stackTable", "frameTable", "funcTable")
    assert_indices samples["stack"], stacks["frame"]
    assert_indices stacks["frame"], frames["func"]
    assert_indices frames["func"], funcs["name"]
    assert_indices [*funcs["name"], *funcs["fileName"]], strings
    assert_indices [*stacks["category"], *frames["category"]], states
    stacks["prefix"].each_with_index { |prefix, i| assert prefix.nil? || prefix < i }
    assert_equal "tracing-ms", samples["weightType"]
    assert_equal [2500.0, 500.0, 250.0], samples["weight"]
    assert_equal [*FRAMES.map { |frame| frame[/`(.*)'/, 1] }.reverse.unshift("GET /reports/:id"), "[db]"],
                 names(thread, samples["stack"].first)
    assert_includes frames["line"], 41
    assert_equal thread["pid"], thread["tid"].to_s
  end

  # The functions of a stack, the outermost first.
  def names(thread, stack)
    found = []
    while stack
      frame = thread["stackTable"]["frame"][stack]
      found << thread["stringArray"][thread["funcTable"]["name"][thread["frameTable"]["func"][frame]]]
      stack = thread["stackTable"]["prefix"][stack]
    end
    found.reverse
  end
end
