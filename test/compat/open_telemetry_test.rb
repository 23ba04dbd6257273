# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"
require "opentelemetry-sdk"
require "opentelemetry-instrumentation-rack"

# OpenTelemetry's gems in each mode: what is current while a request's code runs, and what its span learns at its end.
class OpenTelemetryTest < Minitest::Test
  include ServerCase

  EXPORTER = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
  ENV["OTEL_TRACES_EXPORTER"] = "none"
  OpenTelemetry::SDK.configure do |sdk|
    sdk.logger = Logger.new(IO::NULL)
    sdk.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(EXPORTER))
    sdk.use("OpenTelemetry::Instrumentation::Rack")
  end
  KEY = OpenTelemetry::Context.create_key("place")
  MODES = %w[fiber thread routed hybrid guest:PlainScheduler].freeze
  NONE = "0" * 32
  # Ruby tells what threads do from 3.2 on.
  SEEN = Thread.respond_to?(:each_caller_location)

  # Two pieces, and a pause before each.
  class Body
    def initialize(&note) = @note = note

    def each
      2.times do
        @note.call(:each)
        sleep 0.01
        yield "x"
      end
    end

    def close = @note.call(:close)
  end

  def setup
    @page = Abaca::Page.create(slots: 1)
    super
    @notes = Queue.new
    EXPORTER.reset
  end

  def teardown
    super
  ensure
    @page.close
  end

  # By Rack::Events the span ends when the body is closed, in the older middleware when the app returns.
  def traced(events:, &app)
    rack = OpenTelemetry::Instrumentation::Rack::Instrumentation.instance
    rack.config[:use_rack_events] = events
    Rack::Builder.app do
      use(*rack.middleware_args)
      run app
    end
  end

  def note(path, place) = @notes << [path, place, OpenTelemetry::Trace.current_span.context.hex_trace_id]

  def answer(env)
    path = env["PATH_INFO"]
    note(path, :call)
    env["rack.response_finished"] << ->(*) { note(path, :finished) }
    sleep 0.02
    note(path, :call)
    [200, TYPE.dup, Body.new { |place| note(path, place) }]
  end

  # What was noted of so many requests, by path: [[place, trace], ...].
  def noted(requests, of_each)
    assert(eventually { @notes.size == requests * of_each }, "#{@notes.size} notes")
    Array.new(@notes.size) { @notes.pop }.group_by(&:shift)
  end

  def spans(count)
    found = nil
    assert(eventually { (found = EXPORTER.finished_spans).size == count })
    found
  end

  def each_mode(**options)
    MODES.each do |mode|
      EXPORTER.reset
      running = serve(lint: false, slot: @page[0].claim, slow_after: 0.001, **ServerCase.mode_options(mode),
                      **options) { |env| @app.call(env) }
      yield mode, running
      finish(running)
    end
  end

  def test_the_context_of_interleaved_requests
    @app = traced(events: true) { |env| answer(env) }
    each_mode do |mode, running|
      clients = %w[/a /b /c].map { |path| connect(running).write(request("GET", path)) }
      clients.each { |client| assert_equal "xx", client.read.body, mode }
      found = noted(3, 6)
      traces = found.map do |path, notes|
        trace = notes.first.last
        refute_equal NONE, trace, mode
        assert_equal ([[:call, trace]] * 2) + ([[:each, trace]] * 2) + [[:close, trace], [:finished, NONE]], notes,
                     "#{mode} #{path}"
        trace
      end
      assert_equal spans(3).map(&:hex_trace_id).sort, traces.sort, mode
    end
  end

  # What an app attaches is there up to the end, and gone after it: the fiber or thread has other requests then.
  def test_a_context_of_the_apps_own
    log = Queue.new
    @app = lambda do |env|
      before = [OpenTelemetry::Context.current.value(KEY), Thread.current[:place]]
      token = OpenTelemetry::Context.attach(OpenTelemetry::Context.current.set_value(KEY, env["PATH_INFO"]))
      Thread.current[:place] = env["PATH_INFO"]
      look = ->(*) { log << [OpenTelemetry::Context.current.value(KEY), Thread.current[:place]] }
      env["rack.response_finished"] << ->(*) { look.call && (log << OpenTelemetry::Context.detach(token)) }
      [200, TYPE.dup, Body.new { look.call && (log << before) }]
    end
    each_mode do |mode, running|
      %w[/a /b].each do |path|
        assert_equal "xx", ask(running, request("GET", path)).body
        assert(eventually { log.size == 8 }, mode)
        here = [path, path]
        assert_equal ([here, [nil, nil]] * 3) + [here, true], Array.new(8) { log.pop }, "#{mode} #{path}"
      end
    end
  end

  # What is left attached is not the next request's.
  def test_a_context_that_nobody_detaches
    log = Queue.new
    @app = lambda do |_env|
      log << OpenTelemetry::Context.current.value(KEY)
      OpenTelemetry::Context.attach(OpenTelemetry::Context.current.set_value(KEY, 1))
      [200, TYPE.dup, ["x"]]
    end
    each_mode(max_fibers: 1, threads: [0, 1]) do |mode, running|
      3.times { ask(running) }
      assert_equal [nil, nil, nil], Array.new(3) { log.pop }, mode
    end
  end

  def test_a_span_knows_what_its_request_has_waited_for
    [true, false].each do |events|
      @app = traced(events:) { |env| answer(env) }
      each_mode do |mode, running|
        ask(running)
        span, = spans(1)
        waits = span.attributes.select { |name, _| name.start_with?("abaca.wait.") }
        assert_operator waits.values.sum, :>, events ? 39 : 19, "#{mode} #{waits}"
        state = state_of_sleep(mode)
        assert_operator waits.fetch("abaca.wait.#{state}_ms"), :>, events ? 39 : 19, "#{mode} #{waits}" if state
        assert_operator waits.values.sum, :<, 20_000, mode
        assert_operator waits.values.min, :>, 0, mode
        assert(eventually { @page[0].kept.first&.fetch(:trace) == span.hex_trace_id }, mode)
        @notes.clear
      end
    end
  end

  # The trace comes from whoever has sent the request, if it is kept there.
  def test_exemplars
    need_platform(:memfd)
    @app = traced(events: true) { |env| answer(env) }
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    each_mode do |mode, running|
      ask(running, request("GET", "/", "traceparent" => "00-#{trace}-00f067aa0ba902b7-01"))
      span, = spans(1)
      assert_equal trace, span.hex_trace_id
      found = nil
      assert(eventually { (found = exemplars.last) && found[1] == span.hex_span_id }, "#{mode} #{exemplars}")
      assert_equal trace, found.first
      assert_in_delta span.end_timestamp / 1e9, found.last, 5, mode
    end
  end

  # Without the SDK, and with the setting that has it left alone.
  def test_exemplars_of_what_a_proxy_says
    need_platform(:memfd)
    running = serve(slot: @page[0].claim, opentelemetry: false)
    sampled = "00-#{"a" * 32}-#{"b" * 16}-01"
    ask(running, request("POST", "/", "traceparent" => sampled, body: "x"))
    assert(eventually { exemplars.map { |one| one.first(2) } == [["a" * 32, "b" * 16]] })
    ask(running, request("GET", "/", "Traceparent" => "00-#{"c" * 32}-#{"d" * 16}-00"))
    ask(running, request("GET", "/", "Traceparent" => "00-#{"c" * 32}-01"))
    ask(running)
    assert(eventually { @page[0].totals[:ended] == 4 })
    assert_equal ["a" * 32], exemplars.map(&:first)
  end

  private

  # What a thread waits for is not known, and before Ruby 3.2 not even that it waits.
  def state_of_sleep(mode)
    return "sleep" unless %w[thread routed].include?(mode)

    "io" if SEEN
  end

  # The newest last.
  def exemplars
    series = Abaca::Page::Tally.new(@page, 64).take[:series]
    series.flat_map { |*, exemplars| (exemplars || []).compact }.sort_by(&:last)
  end
end
