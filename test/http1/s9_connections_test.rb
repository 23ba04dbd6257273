# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# Persistence, pipelining and the end of connections (RFC 9112 9).
class Http1S9ConnectionsTest < Minitest::Test
  include ServerCase

  ECHO = lambda do |env|
    [200, { "content-type" => "text/plain" },
     ["#{env['REQUEST_METHOD']} #{env['PATH_INFO']} #{env['rack.input']&.read}"]]
  end

  def test_9_3_a_1_1_connection_is_kept
    client = connect(serve)
    3.times do
      response = client.call(GET)
      assert_equal "hello\n", response.body
      refute response.close?
    end
  end

  # RFC 9112 9.3: the default of 1.0 is to close.
  def test_9_3_a_1_0_connection_is_closed
    client = connect(serve)
    response = client.call(request("GET", version: "1.0"))
    assert_equal "hello\n", response.body
    assert client.closed?
  end

  # RFC 9112 C.2.2
  def test_9_3_a_1_0_connection_is_kept_on_request_and_the_response_says_so
    client = connect(serve(lint: false)) # Rack 2's Lint hides the length of an Array
    2.times do
      response = client.call(request("GET", "/", { "Connection" => "Keep-Alive" }, version: "1.0"))
      assert_equal "keep-alive", response["connection"].to_s.downcase
      assert_equal "hello\n", response.body
    end
  end

  def test_9_3_http_1_0_with_close_and_keep_alive_closes
    client = connect(serve)
    client.call(request("GET", "/", { "Connection" => "keep-alive, close" }, version: "1.0"))
    assert client.closed?
  end

  def test_9_3_2_pipelined_requests_are_answered_in_order
    client = connect(serve(ECHO))
    client.write((1..100).map { |nth| request("GET", "/#{nth}") }.join)
    assert_equal (1..100).map { |nth| "GET /#{nth} " }, Array.new(100) { client.read.body }
    assert client.usable?
  end

  def test_9_3_2_pipelined_requests_of_all_kinds
    requests = Array.new(20) do |nth|
      case nth % 4
      when 0 then [request("GET", "/#{nth}"), "GET /#{nth} "]
      when 1 then [request("POST", "/#{nth}", body: "b" * nth), "POST /#{nth} #{'b' * nth}"]
      when 2
        [request("POST", "/#{nth}", "Transfer-Encoding" => "chunked") + chunked("one", "two" * nth),
         "POST /#{nth} one#{'two' * nth}"]
      else [request("PUT", "/#{nth}", body: "p" * 30_000), "PUT /#{nth} #{'p' * 30_000}"]
      end
    end
    client = connect(serve(ECHO))
    client.write(requests.map(&:first).join)
    assert_equal requests.map(&:last), Array.new(requests.size) { client.read.body }
  end

  # The second app call is quicker than the first; its response still goes second.
  def test_9_3_2_a_slow_request_is_not_overtaken_on_its_connection
    running = serve(lambda do |env|
      sleep 0.1 if env["PATH_INFO"] == "/slow"
      [200, { "content-type" => "text/plain" }, [env["PATH_INFO"]]]
    end)
    client = connect(running)
    client.write(request("GET", "/slow") + request("GET", "/quick"))
    assert_equal %w[/slow /quick], [client.read.body, client.read.body]
  end

  def test_9_3_2_a_half_read_pipeline_continues
    client = connect(serve(ECHO))
    second = request("POST", "/second", body: "later")
    client.write(request("GET", "/first") + second.byteslice(0, 20))
    assert_equal "GET /first ", client.read.body
    client.write(second.byteslice(20..))
    assert_equal "POST /second later", client.read.body
  end

  # What the server has not read yet stays in the socket: a client cannot make it hold more.
  def test_9_3_2_ten_thousand_pipelined_requests
    count = 10_000
    running = serve(max_requests_per_connection: 0, max_pending_output: 65_536) do |env|
      [200, { "content-type" => "text/plain" }, [env["PATH_INFO"]]]
    end
    client = connect(running)
    writer = Thread.new { client.write((1..count).map { |nth| request("GET", "/#{nth}") }.join) }
    assert_equal (1..count).map { |nth| "/#{nth}" }, Array.new(count) { client.read.body }
    writer.join
    assert client.usable?
  end

  def test_9_5_max_requests_per_connection
    client = connect(serve(max_requests_per_connection: 3))
    assert_equal [false, false, true], Array.new(3) { client.call(GET).close? }
    assert client.closed?
  end

  def test_9_5_max_requests_per_connection_counts_pipelined_requests
    client = connect(serve(max_requests_per_connection: 3))
    client.write(GET * 5)
    assert_equal [false, false, true], Array.new(3) { client.read.close? }
    assert client.closed?
  end

  def test_9_5_max_requests_per_connection_of_zero_is_no_limit
    client = connect(serve(max_requests_per_connection: 0))
    client.write(GET * 1_100)
    assert_equal 1_100, Array.new(1_100) { client.read }.count { |response| !response.close? }
  end

  # RFC 9112 9.6
  def test_9_6_close_is_honoured_and_said
    client = connect(serve)
    assert client.call(request("GET", "/", "Connection" => "close")).close?
    assert client.closed?
  end

  def test_9_6_close_among_other_options_in_any_case
    running = serve
    ["CLOSE", "te, Close", "close, te", " ,close", "te,close ,x"].each do |value|
      client = connect(running)
      assert client.call(request("GET", "/", "Connection" => value)).close?, value
      assert client.closed?, value
    end
  end

  # RFC 9110 7.6.1: a list, over as many lines as the client likes.
  def test_9_6_close_in_one_of_several_lines
    running = serve
    [%w[te close], %w[close te], ["te", "", "x , Close\t"]].each do |values|
      client = connect(running)
      assert client.call(request("GET", "/", values.map { |value| ["Connection", value] })).close?, values.inspect
      assert client.closed?, values.inspect
    end
  end

  def test_9_3_http_1_0_is_kept_by_an_option_in_any_line_and_case
    running = serve(lint: false)
    [["KEEP-ALIVE"], %w[te keep-alive], [" ,Keep-Alive\t, te"]].each do |values|
      client = connect(running)
      client.write(request("GET", "/", values.map { |value| ["Connection", value] }, version: "1.0"))
      assert_equal "hello\n", client.read.body
      assert client.usable?, values.inspect
    end
    client = connect(running)
    client.call(request("GET", "/", { "Connection" => "keep-alive-me" }, version: "1.0"))
    assert client.closed?
  end

  def test_9_6_an_option_that_only_contains_close_keeps_the_connection
    client = connect(serve)
    refute client.call(request("GET", "/", "Connection" => "enclosed, close-me")).close?
    assert client.usable?
  end

  def test_9_6_the_app_may_close_the_connection
    running = serve { [200, { "connection" => "close", "content-type" => "text/plain" }, ["bye"]] }
    client = connect(running)
    response = client.call(GET)
    assert_equal ["close"], response.all("connection").map(&:downcase)
    assert_equal "bye", response.body
    assert client.closed?
  end

  def test_9_6_pipelined_requests_after_close_are_not_served
    calls = []
    running = serve do |env|
      calls << env["PATH_INFO"]
      [200, { "content-type" => "text/plain" }, ["x"]]
    end
    client = connect(running)
    client.write(request("GET", "/first", "Connection" => "close") + request("GET", "/second"))
    assert client.read.close?
    assert client.closed?
    assert_equal ["/first"], calls
  end

  # After an error the server closes, but a client that is still sending must get to read the
  # response: an early close would reset the connection and destroy it.
  def test_9_6_an_error_response_survives_a_client_that_goes_on_sending
    client = connect(serve)
    client.write("GET / HTTP/1.1\r\nHost: a.test\r\nBad Name: x\r\n\r\n")
    client.write_what_goes("x" * 1_048_576)
    response = client.read
    assert_equal 400, response.status
    assert response.close?
    assert client.closed?
  end

  def test_9_6_a_rejected_body_may_be_sent_to_its_end
    client = connect(serve(max_body_size: 1_000))
    client.write(request("POST", "/", "Content-Length" => "1048576"))
    client.write_what_goes("x" * 1_048_576)
    assert_equal 413, client.read.status
    assert client.closed?
  end

  def test_9_6_lingering_ends
    running = serve(linger_timeout: 1)
    client = connect(running)
    client.write("BAD\r\n\r\n")
    client.read
    ended = eventually do
      sleep 0.05
      client.write("x" * 100)
      false
    rescue Errno::EPIPE, Errno::ECONNRESET
      true
    end
    assert ended, "the server reads for ever"
  end
end
