# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 4, Status Line.
class Http1S4StatusLineTest < Minitest::Test
  include ServerCase

  def status_line(status)
    running = serve(lint: false) { [status, {}, []] }
    connect(running).write(request("GET", "/", "Connection" => "close")).drain[/\A.*?\r\n/m]
  end

  def test_4_a_registered_code_has_its_phrase
    assert_equal "HTTP/1.1 404 Not Found\r\n", status_line(404)
    assert_equal "HTTP/1.1 422 Unprocessable Content\r\n", status_line(422)
  end

  # The blank stays when there is no phrase.
  def test_4_an_unregistered_code_has_an_empty_phrase
    assert_equal "HTTP/1.1 299 \r\n", status_line(299)
    assert_equal "HTTP/1.1 799 \r\n", status_line(799)
  end

  def test_4_a_code_has_three_digits
    [99, 1000, 42, 0].each { |status| assert_equal "HTTP/1.1 500 Internal Server Error\r\n", status_line(status) }
  end
end
