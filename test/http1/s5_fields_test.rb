# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 5, Field Syntax.
class Http1S5FieldsTest < Minitest::Test
  include ServerCase

  SEEN = ->(env) { [200, { "content-type" => "text/plain" }, [env["HTTP_X"].inspect]] }

  def with_line(line) = "GET / HTTP/1.1\r\nHost: a.test\r\n#{line}\r\n\r\n"

  def test_5_a_line_has_a_name_and_a_colon
    ["X", "X v", ": v", "X Y: v", "X\x01: v", "(X): v"].each { |line| assert_refused 400, with_line(line) }
  end

  def test_5_1_white_space_around_a_value_is_not_part_of_it
    running = serve(SEEN)
    ["X:v", "X: v", "X: \t v\t ", "x:v "].each { |line| assert_equal '"v"', ask(running, with_line(line)).body, line }
    assert_equal '""', ask(running, with_line("X:")).body
    assert_equal '"a \t b"', ask(running, with_line("X: a \t b")).body
  end

  def test_5_1_white_space_before_the_colon_is_refused
    assert_refused 400, with_line("X : v")
    assert_refused 400, with_line("X\t: v")
  end

  def test_5_2_a_folded_line_is_refused
    assert_refused 400, with_line("X: a\r\n b")
    assert_refused 400, with_line("X: a\r\n\tb")
  end

  def test_5_2_no_folded_line_is_sent
    running = serve(lint: false) { [200, { "content-type" => "text/plain", "x" => "a\r\n b" }, []] }
    assert_equal 500, ask(running).status
  end
end
