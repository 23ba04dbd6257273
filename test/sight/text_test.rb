# frozen_string_literal: true

require "test_helper"
require "abaca"

# What clients send, on a screen.
class SightTextTest < Minitest::Test
  Text = Abaca::Sight::Text
  Units = Abaca::Sight::Units

  def test_what_is_harmless_stays
    ["/items/1?x=%20", "", "Zoë", "αβγ", "Привет", "日本語", "한국어"].each { |text| assert_equal text, Text.safe(text) }
  end

  def test_what_moves_a_cursor_is_escaped
    assert_equal '/\x1B[31m\x0A\x08\x7F\x00', Text.safe("/\e[31m\n\b\x7F\0")
    assert_equal '\u{9B}31m', Text.safe("\u009b31m")
    assert_equal '/\xFF\xC3(', Text.safe("/\xFF\xC3(".b)
  end

  # Combining characters join their neighbour, others have no width, or turn the direction round.
  def test_what_has_no_width_of_its_own_is_escaped
    { "e\u0301" => 'e\u{301}', "a\u200bb" => 'a\u{200B}b', "\u202egnp" => '\u{202E}gnp', "\u05d0" => '\u{5D0}',
      "\u{1f600}" => '\u{1F600}', "\u2028" => '\u{2028}', "\ufeff" => '\u{FEFF}', "\u00ad" => '\u{AD}' }
      .each do |text, shown|
      assert_equal shown, Text.safe(text)
    end
  end

  def test_ascii_alone
    assert_equal 'Zo\u{EB} \u{65E5}', Text.safe("Zoë 日", ascii: true)
  end

  def test_any_bytes_are_bounded_and_printable
    random = Random.new(7)
    500.times do
      text = Text.safe(random.bytes(random.rand(200)))
      assert_predicate text, :valid_encoding?
      refute_match(/[[:cntrl:]]/, text)
      columns = random.rand(1..90)
      assert_equal columns, Text.width(Text.fit(text, columns, align: %i[left right].sample(random:)))
    end
    assert_operator Text.safe("x" * 100_000).size, :<=, 1_000
    assert_operator Text.safe("\xff".b * 100_000).size, :<=, 4_000
  end

  def test_wide_characters_take_two_columns
    assert_equal 6, Text.width("日本語")
    assert_equal "日本~", Text.fit("日本語", 5)
    assert_equal "日~ ", Text.fit("日本語", 4)
    assert_equal ["~", ""], [Text.fit("日本語", 1), Text.fit("日本語", 0)]
  end

  def test_fit
    assert_equal ["ab  ", "  ab", "abc~"], [Text.fit("ab", 4), Text.fit("ab", 4, align: :right), Text.fit("abcde", 4)]
  end

  def test_units
    { [nil, :seconds] => "-", [0.000_012, :seconds] => "12us", [0.0021, :seconds] => "2.1ms",
      [0.24, :seconds] => "240ms", [1.25, :seconds] => "1.2s", [75.0, :seconds] => "75s", [700, :seconds] => "11m40s",
      [0.9999, :seconds] => "1.0s",
      [59, :span] => "59s", [3599, :span] => "59m59s", [3600, :span] => "1h00m", [266_400, :span] => "3d02h",
      [0, :bytes] => "0B", [1536, :bytes] => "1.5K", [2 * (1024**3), :bytes] => "2.0G",
      [31 * (1024**2), :bytes] => "31M",
      [0, :rate] => "0", [0.25, :rate] => "0.2", [1204.4, :rate] => "1,204", [99.95, :percent] => "100.0",
      [212.3, :percent] => "212", [1_234_567, :count] => "1,234,567", [-3.25, :signed] => "-3.2", [4711, :id] => "4711",
      ["\e", :text] => '\x1B', %i[db text] => "db" }.each do |(value, unit), text|
      assert_equal text, Units.text(value, unit), [value, unit].inspect
    end
  end
end
