# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 2, Message: what surrounds requests and responses, and their versions.
class Http1S2MessageTest < Minitest::Test
  include ServerCase

  def test_2_1_a_response_has_lines_that_end_with_crlf_and_an_empty_one
    bytes = connect(serve(lint: false)).write(request("GET", "/", "Connection" => "close")).drain
    head, body = bytes.split("\r\n\r\n", 2)
    assert_equal "hello\n", body
    refute_match(/(?<!\r)\n|\r(?!\n)/, head)
    assert_match(%r{\AHTTP/1\.1 200 OK\r\n}, head)
    refute_match(/^(server|via):/i, head)
  end

  def test_2_2_bytes_are_not_read_as_text
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["HTTP_X"].unpack1("H*")]] }
    assert_equal "e9fe", ask(running, request("GET", "/", "X" => "\xE9\xFE".b)).body
  end

  def test_2_2_empty_lines_before_a_request_are_skipped
    client = connect(serve)
    assert_equal 200, client.call("\r\n\r\n#{GET}").status
    assert_equal 200, client.call("\r\n#{GET}").status
  end

  def test_2_2_a_lone_lf_ends_no_line
    ["GET / HTTP/1.1\nHost: a.test\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test\n\r\n",
     "GET / HTTP/1.1\r\nHost: a.test\r\n\n"].each do |bytes|
      assert_refused 400, bytes
    end
  end

  def test_2_2_a_lone_cr_is_refused
    assert_refused 400, "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n"
  end

  def test_2_2_white_space_before_the_first_field_is_refused
    assert_refused 400, "GET / HTTP/1.1\r\n Host: a.test\r\n\r\n"
  end

  def test_2_3_the_version_is_the_servers_own
    bytes = connect(serve).write(request("GET", version: "1.0")).drain
    assert bytes.start_with?("HTTP/1.1 200 OK\r\n")
  end

  def test_2_3_a_higher_minor_version_is_served_as_1_1
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["SERVER_PROTOCOL"]]] }
    response = ask(running, request("GET", version: "1.7"))
    assert_equal ["HTTP/1.1", false], [response.body, response.close?]
  end

  def test_2_3_another_major_version_is_refused
    assert_refused 505, request("GET", version: "2.0")
    assert_refused 400, "GET / HTTX/1.1\r\nHost: a.test\r\n\r\n"
    assert_refused 400, "GET /\r\n"
  end
end
