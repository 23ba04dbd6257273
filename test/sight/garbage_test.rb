# frozen_string_literal: true

require "test_helper"
require "json"
require "abaca"
require "abaca/control"
require "abaca/control/answer"
require "support/page_writer"
require "support/spoiled_page"

# A process has written anything into the page. Whoever reads it goes on: no exception, and what JSON, a browser, a
# terminal or Prometheus gets is well formed.
class SightGarbageTest < Minitest::Test
  # As the launcher has it.
  Slots = Struct.new(:page, :most)
  VIEWS = %i[requests kept loops routes waits clients stalls events history].freeze
  SLOT = %i[state pid claims phase started_at beat_age turn_age figures requests states tally loops routes series events
            kept pools clients restarts totals process].freeze

  # A request of the control server, for text or for JSON.
  Asked = Struct.new(:text) do
    def parameter(name) = { "waits" => "1", "most" => "1000" }[name]
    def prefers?(_type) = text
  end

  def setup
    need_platform(:proc)
    GC.start # other tests have pages, too
    @page = Abaca::Page.create(slots: 2, rows: 60, queued: 20)
    2.times do |slot|
      @page[slot].claim.state = :serving
      PageWriter.write(Process.pid, slot, "scene")
    end
    @seen = Abaca::Page.of(Process.pid)
    @spoiled = SpoiledPage.new(Process.pid).tap { |page| page.spoil(:flips, 0) } # which notes what stands there
    @sight = Abaca::Sight.new(@seen, master: Process.pid)
    @slots = Slots.new(@page, 1)
    @config = Abaca::Config.new
  end

  def teardown
    [@spoiled, @seen, @page].each { |one| one&.close }
  end

  # Yields once for each kind of garbage: behind the line that says that there is a process, and all over, until the
  # process says so again.
  def each_garbage
    { SpoiledPage::LINE => SpoiledPage::WAYS, 0 => %i[any likely] }.each do |from, ways|
      ways.each_with_index do |way, i|
        @spoiled.spoil(way, i + from, from:)
        @page.each(&:beat) if from.zero?
        yield
      rescue StandardError => e
        raise e.class, "#{way} from #{from}: #{e.message}", e.backtrace
      end
    end
  end

  # Well-formed JSON on one line.
  def check_json(text)
    assert_predicate text.dup.force_encoding(Encoding::UTF_8), :valid_encoding?
    assert_equal 1, text.lines.size
    JSON.parse(text)
  end

  # Nothing moves the cursor.
  def check_lines(lines, width = Float::INFINITY)
    lines.each do |line|
      assert_predicate line, :valid_encoding?
      refute_match(/[\0-\x1f\x7f]/, line)
      assert_operator Abaca::Sight::Text.width(line), :<=, width
    end
  end

  def test_slots
    each_garbage do
      @seen.each { |slot| SLOT.each { |method| check_json(Abaca::Sight::JSON.line([slot.public_send(method)])) } }
      %i[requests states waiting loops events kept routes pools clients series history totals sums].each do |method|
        check_json(Abaca::Sight::JSON.line([@seen.public_send(method, *(:tens if method == :history))]))
      end
    end
  end

  def test_the_control_server
    views = Abaca::Control::Views.new(@slots)
    texts = Abaca::Control::Texts.new(@page, master: Process.pid)
    stats = { places: 5, phase: 0, started_at: Time.now, numbers: 1 }
    each_garbage do
      VIEWS.each do |name|
        check_json(Abaca::Control::Answer.line(views.public_send(name, Asked.new(false))))
        check_lines(Abaca::Control::Table.text(views.public_send(name, Asked.new(true))).lines(chomp: true))
      end
      %w[workers requests routes waits loops clients events].each do |name|
        check_lines(texts.answer(name, Asked.new(true)).body.lines(chomp: true), 140)
      end
      check_json(JSON.generate(Abaca::Control::PumaStats.workers(Abaca::Control::PumaStats.cluster(@page, **stats))))
      Abaca::Control::PumaStats.single(@page[0].figures, places: 5, started_at: Time.now)
    end
  end

  def test_metrics
    metrics = Abaca::Metrics.new(@config, @slots, pid: Process.pid)
    formats = [Abaca::Metrics::Text, Abaca::Metrics::OpenMetrics].cycle
    each_garbage do
      text = metrics.text(formats.next)
      assert_predicate text, :valid_encoding?
      samples = text.lines(chomp: true).reject { |line| line.start_with?("#") }
      assert_operator samples.size, :>, 50
      assert(samples.all? { |line| line.match?(/\A[a-z_]+(?:\{.*\})? -?\d[\d.e+-]*(?: # .*)?\z/) }, "NaN is no figure")
    end
  end

  # Rates are those between two looks, each at other garbage.
  def test_top
    style = Abaca::Top::Style.new(dumb: true)
    each_garbage do
      look = @sight.look
      check_lines(Abaca::Top::Pages.new(@sight, out: nil, style:).page(look, 100), 100)
      check_json(Abaca::Sight::JSON.line(@sight.to_h(look)))
      Abaca::Sight::SCREENS.each_key { |name| check_screen(look, name, style) }
    end
  end

  # As a terminal has it: each row can be chosen, and shown in detail.
  def check_screen(look, name, style)
    view = Abaca::Top::View.new(@sight, style:, screen: name)
    check_lines(Abaca::Top::Frame.new(style:, view:).lines(@sight, look, [40, 120], facts: [], last: nil), 120)
    @sight.screen(name, look, filter: "a").rows
    @sight.screen(name, look).rows.each do |row|
      worker, id = row.source if %i[requests fibers].include?(name)
      found = id && @sight.detail(look, worker, id)
      check_lines(found.lines) if found
      check_json(Abaca::Sight::JSON.line(found.to_h)) if found
    end
  end

  def test_the_dashboard
    board = Abaca::Dashboard.new(@page, master: Process.pid)
    live = Abaca::Dashboard::SCREENS.keys.to_h do |name|
      [name, board.live({ "screen" => name.to_s, "width" => "tens" }.method(:[]))]
    end
    each_garbage do
      board = Abaca::Dashboard.new(@page, master: Process.pid)
      live.each_key do |name|
        text = board.live({ "screen" => name.to_s }.method(:[])).next
        check_json(text.delete_prefix("data: ").chomp("\n\n"))
      end
      board.request({ "worker" => "0", "id" => "8" }.method(:[]))
    end
    live.each_value { |one| check_json(one.next.delete_prefix("data: ").chomp("\n\n")) }
  end

  # Who has it mapped has read the head; others are told that it is none.
  def test_the_head
    SpoiledPage::WAYS.each_with_index do |way, seed|
      @spoiled.spoil_head(way, seed)
      assert_equal 2, @seen.size
      @seen.each { |slot| SLOT.each { |method| slot.public_send(method) } }
      assert_operator @seen.requests.size, :<=, 160
      @sight.look
    end
    assert_raises(Abaca::Error) { Abaca::Page.of(Process.pid) }
  end
end
