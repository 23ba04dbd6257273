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
    *(1..0x7f).map { |code| "/#{code.chr}/" }, "", "/", "\"\\\"", "/\u2028\u2029\u0085", "/\u{10ffff}\u{fffe}\ud7ff",
    "/Zo\u00eb \u65e5\u672c", "/\xff", "/\xc3", "/\xc3(", "/\xc0\xaf", "/\xe2\x82", "/\xe2\x82x", "/\xed\xa0\x80",
    "/\xf0\x9f\x98", "/\xf0\x9f\x98x", "/\xf4\x90\x80\x80", "/\xf8\x88\x80\x80\x80", "/\x80\xbf", "/<script>&'",
    "/#{"a" * 8192}", "/#{"\xff" * 8192}", "/#{"\u{1f600}" * 2048}", "/#{"\n" * 8192}"
  ].map(&:b).freeze
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
    else JSON.generate(Abaca::Log::Text.utf8(value, stand_in))
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

  def test_requests
    page = Abaca::Page.create(slots: 2, rows: 200, queued: 10)
    page[0].claim.state = :serving
    PageWriter.write(Process.pid, 0, "paths", *HOSTILE)
    request = Struct.new(:query) { def parameter(name) = query[name] }.new({ "most" => "500", "waits" => "1" })
    found = Abaca::Control::Views.new(Slots.new(page, 1)).requests(request)
    rows = found[:requests].sort_by { |row| row[:id][2..].to_i }
    assert_equal HOSTILE.map { |path| path[0, 128] }, rows.map { |row| row[:path] }
    assert_same_as_ruby(found)
    assert_same_as_ruby(page.requests)
  ensure
    page&.close
  end
end
