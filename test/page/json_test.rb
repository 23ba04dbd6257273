# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control"
require "abaca/control/views"
require "bigdecimal"
require "json"
require "support/page_writer"

# Looks as JSON, compared with what Ruby makes of the same values, byte for byte.
class PageJSONTest < Minitest::Test
  Line = Abaca::Page::Line
  Slots = Struct.new(:page, :most)
  STAND_INS = ["?", "\u{FFFD}"].freeze
  HOSTILE = [
    *(1..0x7f).map { |code| "/#{code.chr}/" }, "", "/", "\"\\\"", "/\u2028\u2029\u0085",
    "/\u202e\u2066\u061c\u200e\u200d\u009f\u00a0", "/\u{10ffff}\u{fffe}\ud7ff",
    "/Zo\u00eb \u65e5\u672c", "/\xff", "/\xc3", "/\xc3(", "/\xc0\xaf", "/\xe2\x82", "/\xe2\x82x", "/\xed\xa0\x80",
    "/\xf0\x9f\x98", "/\xf0\x9f\x98x", "/\xf4\x90\x80\x80", "/\xf8\x88\x80\x80\x80", "/\x80\xbf", "/<script>&'",
    "/#{"a" * 8192}", "/#{"\xff" * 8192}", "/#{"\u{1f600}" * 2048}", "/#{"\n" * 8192}"
  ].map(&:b).freeze
  # What a terminal, or whatever shows the line, would obey. JSON has a text for it.
  OBEYED = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/
  NUMBERS = [0.0, -0.0, 1.0, -1.5, 0.1, 0.2, 0.1 + 0.2, 1e-4, 9.9999e-5, 1e-5, 1.25e-05, 1e-9, 1.5e-9, 1e-10, 1e15,
             999_999.999999999, 1e6, 123_456_789.25, 1e16, 1e22, 1.7e308, 5e-324, 2.0**-20, 2.5e-7, 5e-7, 1.0000005,
             1.0000015, Float::NAN, Float::INFINITY, -Float::INFINITY, 0, 1, -1, 10**18, 2**62, -(2**62), 2**64,
             -(2**70)].freeze

  # As it would be done in Ruby. Versions of JSON write small fractions in different ways; here they are Ruby's own.
  def plain(value, stand_in, rounds)
    case value
    when Hash then "{#{value.map { |key, one| plain_pair(key, one, stand_in, rounds) }.join(",")}}"
    when Array then "[#{value.map { |one| plain(one, stand_in, rounds) }.join(",")}]"
    when Float then number(value, rounds)
    when nil then "null"
    when Integer, true, false then value.to_s
    when Time then plain(value.getutc.strftime("%FT%T.%3NZ"), stand_in, rounds)
    else
      JSON.generate(Abaca::Log::Text.utf8(value, stand_in)).gsub(OBEYED) { |char| format("\\u%04x", char.ord) }
    end
  end

  def plain_pair(key, value, stand_in, rounds)
    "#{plain(key.to_s, stand_in, rounds)}:#{plain(value, stand_in, rounds)}"
  end

  def number(value, rounds)
    return "null" unless value.finite?

    (rounds ? value.round(6) : value).to_s
  end

  def assert_same_as_ruby(value)
    STAND_INS.product([false, true]) do |stand_in, rounds|
      line = Line.json(value, stand_in, rounds)
      assert_equal plain(value, stand_in, rounds), line, value.inspect[0, 200]
      assert_equal [Encoding::UTF_8, true, 1], [line.encoding, line.valid_encoding?, line.lines.size]
    end
  end

  def test_texts
    HOSTILE.each do |text|
      [text, text.dup.force_encoding(Encoding::UTF_8), text.dup.force_encoding(Encoding::US_ASCII),
       text.dup.force_encoding(Encoding::ISO_8859_1)].each { |one| assert_same_as_ruby([one]) }
    end
    assert_same_as_ruby({ HOSTILE.last => :ä, 1 => "\u00e4".encode(Encoding::UTF_16LE), nil => nil })
  end

  def test_texts_of_any_bytes
    random = Random.new(5)
    # Bytes that begin, and go on with, characters: most of them stand in the wrong place.
    some = [0x20, 0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0, 0xe1, 0xed, 0xf0, 0xf1, 0xf4].pack("C*").chars
    2000.times { assert_same_as_ruby(Array.new(random.rand(12)) { some.sample(random: random) }.join.b) }
    200.times { assert_same_as_ruby(random.bytes(random.rand(300))) }
  end

  def test_numbers
    NUMBERS.each { |number| assert_same_as_ruby([number]) }
  end

  # Times are nanoseconds, most of them.
  def test_fractions
    random = Random.new(6)
    3000.times do
      nanoseconds = random.rand(10**random.rand(1..19))
      numbers = [nanoseconds / 1e9, nanoseconds / 1e6, (nanoseconds - (nanoseconds % 1000) + 500) / 1e9,
                 (nanoseconds / 1e9).next_float, (nanoseconds / 1e9).prev_float]
      assert_same_as_ruby(numbers)
    end
  end

  def test_values
    assert_same_as_ruby({})
    assert_same_as_ruby([[], {}, [{}], { a: [] }, true, false, nil, :sym])
    assert_same_as_ruby({ at: Time.at(1, 999_999, :usec), with_offset: Time.new(2026, 11, 28, 1, 2, 3, "+02:00"),
                          range: 1..2, big: BigDecimal("1.5"), pattern: /a/, decimal: 3r })
    assert_same_as_ruby(Array.new(500) { |i| { "key #{i}" => "x" * i, list: [i, i / 3.0] } })
  end

  def test_what_is_refused
    endless = []
    endless << endless
    assert_raises(ArgumentError) { Line.json(endless, "?", false) }
    assert_raises(ArgumentError) { Line.json("", "too long", false) }
    assert_raises(TypeError) { Line.json("", nil, false) }
    assert_raises(NoMethodError) { Line.json(BasicObject.new, "?", false) }
  end

  Request = Struct.new(:query) do
    def parameter(name) = query[name]
    def prefers?(*) = false
  end

  def with_page(*words)
    need_platform(:memfd) # in a file there are fewer rows
    page = Abaca::Page.create(slots: 4, rows: 200, queued: 10)
    page[1].claim.state = :serving
    PageWriter.write(Process.pid, 1, *words)
    yield page
  ensure
    page&.close
  end

  # Times go on between two looks at the same requests. Numbers and addresses stand in quotes.
  def without_times(text) = text.gsub(/(?<=[:,\[])\d+\.\d+(e-\d+)?/, "T")

  def assert_requests_as_in_ruby(page)
    views = Abaca::Control::Views.new(Slots.new(page, 2))
    [{}, { "most" => "1" }, { "most" => "500", "waits" => "1" }].each do |query|
      hashes, lines = [true, false].map { |rows| views.requests(Request.new(query), rows:) }
      assert_equal without_times(plain(hashes, "?", false)), without_times(Line.json(lines, "?", false)), query
    end
    sight = Abaca::Sight.new(page)
    looks = Array.new(2) { sight.look }
    looks.first.places = { "none" => "app.rb:1" } # these rows are made in Ruby
    hashes, lines = looks.map { |look| sight.screen(:requests, look).to_h }
    assert_equal [Array, Line::Written], [hashes[:rows], lines[:rows]].map(&:class)
    assert_equal without_times(plain(hashes, "\u{FFFD}", true)), without_times(Line.json(lines, "\u{FFFD}", true))
  end

  def test_hostile_requests
    with_page("paths", *HOSTILE) do |page|
      assert_requests_as_in_ruby(page)
      paths = JSON.parse(page.request_lines(most: 500, numbers: 2)).map { |row| row.values_at("id", "path") }
      HOSTILE.each_with_index do |path, i|
        assert_includes paths, ["1.#{i + 1}", Abaca::Log::Text.utf8(path[0, 128])]
      end
    end
  end

  def test_requests
    with_page("scene") do |page|
      assert_requests_as_in_ruby(page)
      page[2].claim.state = :serving
      PageWriter.write(Process.pid, 2, "rows", 100)
      lines = page.request_lines(most: 500, numbers: 2)
      rows = JSON.parse(lines)
      assert_equal 102, rows.size
      assert_equal rows.map { |row| row["age"] }.sort.reverse, rows.map { |row| row["age"] }
      assert_equal [0, 1], rows.map { |row| row["worker"] }.uniq.sort
      assert_equal [], JSON.parse(page.request_lines(most: 0, numbers: 2))
      assert_equal "{\"rows\":#{lines}}", JSON.generate({ rows: lines })
      assert_raises(ArgumentError) { page.request_lines(most: 1, numbers: 0) }
    end
  end

  # Whatever a fault has left there.
  def test_garbage
    20.times do |seed|
      with_page("garbage", seed) do |page|
        [true, false].each do |brief|
          rows = page.request_lines(most: 1000, numbers: 2, brief:, waits: true)
          assert_kind_of Array, JSON.parse(rows)
          assert_predicate rows, :valid_encoding?
        end
      end
    end
  end

  def test_requests_of_a_process_that_has_ended
    with_page("scene") do |page|
      page[1].state = :ended
      assert_equal "[]", page.request_lines(most: 500, numbers: 2)
      page.close
      assert_raises(IOError) { page.request_lines(most: 500, numbers: 2) }
    end
  end
end
