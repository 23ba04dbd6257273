# frozen_string_literal: true

require "test_helper"
require "abaca"
require "stringio"

# What the log says of requests that compute and keep each other waiting.
class SaturationTest < Minitest::Test
  LOAD = { requests: 1743, computed: 57.9, waited: 1690, longest: 1.94,
           routes: [["/boards/*", 41.1], ["/login", 11.6], [nil, 5.2]] }.freeze

  Engine = Struct.new(:saturation)

  def setup
    super
    @out = StringIO.new
    @log = Abaca::Log.new(@out)
    @saturation = Abaca::Saturation.new(@log)
  end

  def said
    assert @log.release(30)
    @out.string
  end

  def look(load, *times) = times.each { |time| @saturation.look(Engine.new(load), time) }

  def test_one_line_a_minute_with_the_counts
    look(LOAD, *(0..119).map(&:to_f))
    assert_equal "abaca: warning: 1743 requests computed for 57.9 s in the last 60 s (/boards/* 71 %, /login 20 %, " \
                 "other paths 9 %); 1690 of them waited for others before, up to 1.9 s: more workers, or less work " \
                 "per request, make that shorter (docs/stalls.md#saturation)\n", said
  end

  def test_nothing_is_said_when_few_have_waited
    look({ **LOAD, waited: 9 }, 0.0, 60.0)
    look(nil, 120.0)
    assert_empty said
  end
end
