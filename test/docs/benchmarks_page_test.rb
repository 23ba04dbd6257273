# frozen_string_literal: true

require "test_helper"
require "support/browser"
require "support/programs"
require_relative "../../bench/report/reporting"

# The report in headless Chromium: each chart has its data, and can be read on a phone, in light and dark, and aloud.
class BenchmarksPageTest < Minitest::Test
  include Programs

  ROOT = File.expand_path("../..", __dir__)
  PAGE = File.join(ROOT, "bench/results/report.html")
  PICTURE = File.join(ROOT, "docs/benchmarks.svg")
  PHONE = [390, 844].freeze
  DESK = [1280, 900].freeze
  NAME = %(<img src=x onerror="window.hit=1"></text></svg><script>window.hit=1</script>)

  # Colours of text, of bars and of lines against what is behind them.
  CONTRAST = <<~JS
    (() => {
      const parts = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = (text) => {
        const [r, g, b] = parts(text).map((one) => one / 255).map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (one) => {
        for (let at = one; at; at = at.parentElement) {
          const back = getComputedStyle(at).backgroundColor;
          if (!/, 0\\)$/.test(back) && back !== "transparent") return back;
        }
        return "rgb(255, 255, 255)";
      };
      const ratio = (one, colour) => {
        const [high, low] = [light(colour), light(behind(one))].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05);
      };
      const poor = [];
      const check = (selector, property, least) => document.querySelectorAll(selector).forEach((one) => {
        const found = ratio(one, getComputedStyle(one)[property]);
        if (found < least) poor.push(`${selector} ${one.textContent.slice(0, 30)} ${found.toFixed(2)}`);
      });
      check("h1, h2, h3, p, a, li, td, th, summary, code, figcaption", "color", 4.5);
      check("svg text", "fill", 4.5);
      check("rect.bar", "fill", 3);
      check("line.whisker, .line line:not(.halo)", "stroke", 3);
      return [...new Set(poor)].slice(0, 10);
    })()
  JS

  # Letters that leave their picture, or run into each other.
  OVERFLOW = <<~JS
    [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
      const room = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter((text) => {
        const box = text.getBoundingClientRect();
        const next = text.classList.contains("name") && text.parentNode.querySelector(".figure");
        return box.left < room.left - 1 || box.right > room.right + 1 || box.bottom > room.bottom + 1 ||
          (next && box.right + 4 > next.getBoundingClientRect().left);
      }).map((text) => text.textContent);
    })
  JS

  # anchor => [bars as wide as they should be, names, lines of the legend, rows of the table]
  CHARTS = <<~JS
    Object.fromEntries([...document.querySelectorAll("figure")].map((figure) => [figure.id, [
      figure.querySelectorAll("rect.bar").length, figure.querySelectorAll(".absent").length,
      figure.querySelectorAll("g.line text").length, figure.querySelectorAll("tbody tr").length,
      Math.max(...[...figure.querySelectorAll("rect.bar")].map((bar) => bar.getBoundingClientRect().width)),
      figure.querySelector("svg").getBoundingClientRect().height, figure.querySelector("figcaption").textContent.length]]))
  JS

  # All tests share one: it takes a second to start.
  def self.browser
    @browser ||= Browser.new.tap { |browser| Minitest.after_run { browser.close } }
  end

  def browser
    missing("chromium") unless Browser::PROGRAM
    @browser ||= self.class.browser.tap { |one| one.complaints.clear }
  end

  def teardown
    assert_empty @browser.complaints if @browser
  end

  def look(path, size: DESK, scheme: :light)
    browser.resize(*size)
    browser.scheme = scheme
    browser.visit("file://#{path}")
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true })")
  end

  def test_each_chart_has_its_data
    look(PAGE)
    shown = browser.value(CHARTS)
    charts = Bench::Reporting::ResultsFolder.new.charts
    assert_equal charts.map(&:anchor).sort, shown.keys.sort
    charts.each do |chart|
      bars, absent, lines, rows, widest, high, sentence = shown.fetch(chart.anchor)
      counts = [chart.bars.size, chart.absent.size, chart.lines.size]
      assert_equal [*counts, counts.sum], [bars, absent, lines, rows], chart.key
      # Bars share the picture with lines, which may be much longer.
      least = chart.lines.any? { |line| line.value > 10 * chart.bars.map(&:value).max } ? 2 : 20
      assert_operator widest, :>, least, chart.key if chart.bars.any? { |bar| bar.value.positive? }
      assert_operator high, :>, 30, chart.key
      assert_operator sentence, :>, 10, chart.key
    end
  end

  def test_a_phone
    look(PAGE, size: PHONE)
    assert_operator browser.value("document.documentElement.scrollWidth"), :<=, PHONE.first
    assert_empty browser.value(OVERFLOW)
    look(PAGE)
    assert_operator browser.value("document.documentElement.scrollWidth"), :<=, DESK.first
    assert_empty browser.value(OVERFLOW)
  end

  def test_both_schemes_can_be_read
    backs = %i[light dark].map do |scheme|
      look(PAGE, scheme: scheme)
      assert_empty browser.value(CONTRAST), scheme
      browser.value("getComputedStyle(document.body).backgroundColor")
    end
    assert_equal 2, backs.uniq.size
  end

  # It has a text for each picture, names for what scrolls, and needs neither scripts nor anything from elsewhere.
  def test_for_readers_aloud
    look(PAGE)
    foreign = "script, link, img, iframe, [src], [style], [onclick]"
    assert_equal 0, browser.value("document.querySelectorAll('#{foreign}').length")
    assert_equal 0, browser.value("[...document.querySelectorAll('svg')].filter((svg) => " \
                                  "svg.getAttribute('role') !== 'img' || " \
                                  "svg.getAttribute('aria-labelledby').split(' ')" \
                                  ".some((id) => !document.getElementById(id)?.textContent)).length")
    assert_equal 0, browser.value("document.querySelectorAll('th:not([scope])').length")
    assert_equal 0, browser.value("document.querySelectorAll('[role=region]:not([aria-label])').length")
    assert_empty browser.value("(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); " \
                               "return ids.filter((id, nth) => ids.indexOf(id) !== nth); })()")
    assert_empty browser.value("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))" \
                               ".filter((href) => !document.getElementById(href.slice(1)))")
  end

  def test_the_picture
    look(PICTURE)
    assert_operator browser.value("document.querySelectorAll('rect.bar').length"), :>=, 2
    assert_empty browser.value("[...document.querySelectorAll('text')].filter((text) => " \
                               "text.getBBox().x < 0 || text.getBBox().x + text.getBBox().width > 680).length || []")
  end

  # Names and reasons come from elsewhere.
  def test_hostile_names
    Dir.mktmpdir do |folder|
      rounds = [{ cpu: 1 }, { cpu: 2 }]
      server = ->(name) { { name: name, loads: { ka64: { cpu_us_median: 1.5, rounds: rounds } } } }
      data = { benchmark: "servers", machine: { cpu: NAME, ruby: NAME, kernel: NAME, time: "2026-01-02T00:00:00Z" },
               loads: [{ name: "ka64", title: NAME }], rounds: NAME,
               servers: [server["abaca"], server[NAME], { name: "#{NAME}2", absent: NAME }] }
      File.write(File.join(folder, "1-servers.json"), JSON.generate(data))
      File.write(File.join(folder, "2-strange.json"), JSON.generate({ benchmark: NAME, NAME => NAME }))
      files = Bench::Reporting::Book.new(folder: folder).files(readme: File.read(File.join(ROOT, "README.md")))
      page = File.join(folder, "report.html")
      File.write(page, files.fetch(Bench::Reporting::Book::PAGE))
      look(page, size: PHONE)
      assert_nil browser.value("window.hit")
      assert_equal [2, 1, 0], browser.value("['rect.bar', '.absent', 'script, img'].map((one) => " \
                                            "document.querySelectorAll(one).length)")
      assert_operator browser.value("document.documentElement.scrollWidth"), :<=, PHONE.first
      assert_empty browser.value(OVERFLOW)
      picture = File.join(folder, "picture.svg")
      File.write(picture, files.fetch(Bench::Reporting::Book::PICTURE))
      look(picture)
      assert_equal [2, 0], browser.value("['rect.bar', 'script, img'].map((one) => " \
                                         "document.querySelectorAll(one).length)")
    end
  end
end
