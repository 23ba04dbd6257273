# frozen_string_literal: true

require "test_helper"
require "abaca"

# Bytes of a terminal.
class TopKeysTest < Minitest::Test
  def keys = @keys ||= Abaca::Top::Keys.new

  def test_characters_and_names
    assert_equal ["q", "?", " ", :enter, :tab, :erase, :interrupt, :suspend], keys.feed("q? \r\t\x7f\x03\x1a")
    assert_equal %w[ä 日], keys.feed("ä日".b)
  end

  def test_sequences
    assert_equal %i[up down right left up page_up page_down home end],
                 keys.feed("\e[A\e[B\e[C\e[D\eOA\e[5~\e[6~\e[1~\eOF")
    refute_predicate keys, :begun?
  end

  def test_pieces_of_a_key
    assert_empty keys.feed("\e")
    assert_predicate keys, :begun?
    assert_empty keys.feed("[")
    assert_equal [:up], keys.feed("A")
    assert_empty keys.feed("\xc3")
    assert_equal ["ä"], keys.feed("\xa4")
  end

  def test_escape_alone
    assert_empty keys.feed("\e")
    assert_equal [:escape], keys.flush
    refute_predicate keys, :begun?
    assert_empty keys.flush
  end

  # Function keys, the mouse, answers of the terminal, bytes that are no text.
  def test_what_means_nothing
    assert_equal %w[a b c d], keys.feed("a\e[15~b\e[<0;3;4Mc\e[?1;2cd")
    assert_equal %w[a b], keys.feed("a\xff\xfe\x01b")
    assert_empty keys.feed("\u009b")
  end

  def test_any_bytes
    random = Random.new(3)
    200.times do
      found = keys.feed(random.bytes(30))
      assert(found.all? { |key| key.is_a?(Symbol) || key.match?(/\A[[:print:]]\z/) })
    end
  end
end
