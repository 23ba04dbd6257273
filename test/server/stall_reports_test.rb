# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "stringio"

# What the log says of requests that have kept their loop.
class StallReportsTest < Minitest::Test
  ENV_OF = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/report" }.freeze
  GEM = "#{Gem.path.first}/gems/some-1.0/lib/some.rb:1:in `some'".freeze
  APP = "#{Dir.pwd}/app/reports.rb:41:in `sum'".freeze
  # Ruby 3.1 to 3.3, and 3.4.
  LOADING = ["<internal:/usr/lib/ruby/kernel_require.rb>:85:in `require'",
             "#{Gem.path.first}/gems/zeitwerk-2.6/lib/zeitwerk/kernel.rb:34:in 'Kernel#require'"].freeze

  def setup
    super
    @now = 0
    @out = StringIO.new
    @err = StringIO.new
    @log = Abaca::Log.new(@out, @err)
    @reports = Abaca::StallReports.new(@log, nil, -> { @now })
  end

  def teardown
    @log.release
    super
  end

  def report(*backtrace) = @reports.call(1, 0.102, ENV_OF, backtrace, false)

  def said
    @log.flush(20)
    [@out.string, @err.string]
  end

  def test_one_line_of_the_app_whatever_is_above_and_below
    report(*[GEM] * 80, APP, *[GEM] * 80)
    report(GEM, APP)
    out, err = said
    assert_empty out
    lines = err.lines.map(&:chomp)
    assert_equal ["abaca: warning: a request (GET /report) has kept its loop for at least 102 ms:",
                  "    app/reports.rb:41:in `sum'"], lines.first(2)
    assert_match(/Abaca\.offload/, lines[2])
    assert_equal 3, lines.size
  end

  # What nobody has waited for is an event, and no line of the log; nor is it two events when somebody does.
  def test_only_what_delays_others_is_logged
    noted = []
    reports = Abaca::StallReports.new(@log, ->(*facts) { noted << facts and nil })
    reports.call(1, 0.102, ENV_OF, [APP], false, 7, nil, :none)
    assert_equal ["", ""], said
    reports.call(1, 0.2, ENV_OF, [APP], false, 7, nil, :later)
    assert_equal [[0.102, ENV_OF, [APP], 7]], noted
    assert_match(%r{\(GET /report\) has kept its loop for at least 200 ms}, said.last)
  end

  # What was told when it was noticed was not the whole: the log and the event are told how long it was.
  def test_the_end_of_a_stall
    report(APP)
    @reports.over(1, 5.16, 4.94, 31)
    @reports.over(1, 5.16, 4.94, 31)
    report(APP) # each place once, and its end, too
    @reports.over(1, 0.4, 0.0, 1)
    assert_equal ["abaca: warning: a request (GET /report) let its loop go after 5.2 s, computing for 4.9 s; " \
                  "31 requests waited\n"], said.last.lines.drop(3)
  end

  def test_the_end_of_one_that_another_thread_has_made
    @reports.call(2, 0.2, nil, [APP], false, nil, nil, :seen)
    @reports.over(2, 0.412, 0.0, 1)
    assert_equal "abaca: warning: another thread let the loop go after 412 ms; 1 request waited\n", said.last.lines.last
  end

  def test_the_end_of_what_delayed_nobody
    page = Abaca::Page.create(slots: 1)
    slot = page[0].claim
    reports = Abaca::StallReports.new(@log, Abaca::StallEvents.new(slot), -> { @now })
    reports.call(1, 0.102, ENV_OF, [APP], false, 7, nil, :none)
    reports.call(2, 0.102, ENV_OF, [APP], false, 8, nil, :none) # of the same place: it has no event
    assert_equal [[7, true]], slot.events.map { |event| event.values_at(:request, :lasts) }
    began = slot.events.first[:at]
    reports.over(1, 3.0, 2.5, 9)
    reports.over(2, 4.0, 2.5, 9)
    assert_equal [[7, 3.0, 2.5, nil, began]],
                 slot.events.map { |event| event.values_at(:request, :time, :computed, :lasts, :at) }
    assert_equal ["", ""], said
  ensure
    page.close
  end

  def test_a_call_that_blocks
    @reports.call(1, 0.4, ENV_OF, [APP], :blocks)
    @reports.call(1, 0.4, ENV_OF, [GEM], true)
    blocks, late = said.last.scan(/for at least 400 ms, in (\w+ \w+).*; it has come back to$/).flatten
    assert_equal ["a call", "code that"], [blocks, late]
  end

  # Whether somebody has waited or not: the fiber is easily changed, and the next time somebody may.
  def test_a_wait_of_a_blocking_fiber
    [1, 2].each { |number| @reports.call(number, 0.2, ENV_OF, [APP], :fiber, 7, nil, :none) }
    lines = said.last.lines.map(&:chomp)
    assert_match(/ has kept its loop for at least 200 ms, in a wait of a blocking fiber:\z/, lines[0])
    assert_equal "    app/reports.rb:41:in `sum'", lines[1]
    assert_match(/`blocking: false'/, lines[2])
    assert_equal 3, lines.size
  end

  def test_code_that_is_loaded_in_the_first_minute
    LOADING.each { |frame| report(GEM, frame, APP) }
    out, err = said
    assert_equal "* Loading code has kept the loop for at least 102 ms (GET /report) at app/reports.rb:41:in `sum'; " \
                 "the first minute's others are only counted\n", out
    assert_empty err
  end

  def test_code_that_is_loaded_later
    @now = 61
    report(LOADING.first, APP)
    assert_match(/has kept its loop for at least 102 ms:\n    app/, said.last)
  end
end
