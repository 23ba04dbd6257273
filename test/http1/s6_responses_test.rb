# frozen_string_literal: true

# also: modes sanitized portable

require "timeout"
require "test_helper"
require "support/server_case"
require "time"

# How responses are framed and what the server adds to them (RFC 9112 6, RFC 9110 6.6, 8.6, 9.3.2).
class Http1S6ResponsesTest < Minitest::Test
  include ServerCase

  TEXT = { "content-type" => "text/plain" }.freeze

  # Rack 2's Lint hides that a body is an Array, so some tests do without it.

  # A body whose length only its end tells.
  class Unknown
    def initialize(*pieces)
      @pieces = pieces
    end

    def each(&block)
      @pieces.each(&block)
    end
  end

  def test_4_statuses_and_their_phrases
    running = serve(lint: false) { |env| [env["PATH_INFO"].delete("/").to_i, {}, []] }
    client = connect(running)
    { 200 => "OK", 201 => "Created", 404 => "Not Found", 418 => nil, 503 => "Service Unavailable", 599 => "",
      999 => "" }
      .each do |status, phrase|
        response = client.call(request("GET", "/#{status}"))
        assert_equal status, response.status
        assert_equal phrase, response.reason if phrase
      end
  end

  # Fields for the server, not for the client (Rack SPEC, "The Headers").
  def test_5_rack_fields_are_not_sent
    running = serve(lint: false) { [200, { "rack.internal" => "secret", "x-seen" => "1" }, ["x"]] }
    response = ask(running)
    assert_equal "1", response["x-seen"]
    assert_nil response["rack.internal"]
  end

  def test_5_a_head_larger_than_any_buffer
    fields = (1..500).to_h { |nth| ["x-#{nth}", "v" * 500] }
    running = serve { [200, TEXT.merge(fields), ["x"]] }
    client = connect(running)
    response = client.call(GET)
    assert_equal fields, response.headers.to_h.slice(*fields.keys)
    assert_equal "x", response.body
  end

  # What is behind a line end stays a value of the field: nothing else can come in by it.
  def test_5_2_a_line_end_in_a_field
    running = serve(lint: false) { [200, { "x-a" => "1\nset-cookie: b=2" }, []] }
    response = ask(running)
    assert_equal [["1", "set-cookie: b=2"], []], %w[x-a set-cookie].map { |name| response.all(name) }
  end

  def test_6_a_mutated_body_string_does_not_change_what_was_given
    buffer = String.new
    body = Class.new do
      define_method(:each) do |&block|
        100.times do |nth|
          buffer.replace(nth.to_s.rjust(5_000, "."))
          block.call(buffer)
        end
      end
    end.new
    running = serve(lint: false) { [200, TEXT.dup, body] }
    assert_equal Array.new(100) { |nth| nth.to_s.rjust(5_000, ".") }.join, ask(running).body
  end

  def test_6_2_an_array_body_gets_its_length
    running = serve(lint: false) { [200, TEXT.dup, %w[one two three]] }
    response = ask(running)
    assert_equal "11", response["content-length"]
    assert_equal "onetwothree", response.body
  end

  def test_6_2_an_empty_body_has_length_zero
    running = serve(lint: false) { [200, TEXT.dup, []] }
    client = connect(running)
    assert_equal "0", client.call(GET)["content-length"]
    assert client.usable?
  end

  def test_6_2_the_apps_content_length_is_kept
    running = serve { [200, TEXT.merge("content-length" => "6"), Unknown.new("one", "two")] }
    client = connect(running)
    response = client.call(GET)
    assert_equal [:length, "onetwo"], [response.framing, response.body]
    assert client.usable?
  end

  # RFC 9110 8.6: 304 may say the length that a 200 would have had; 204 must not.
  def test_6_2_content_length_of_the_app_on_304_and_204
    running = serve(lint: false) { |env| [env["PATH_INFO"].delete("/").to_i, { "content-length" => "42" }, []] }
    client = connect(running)
    assert_includes ["42", nil], client.call(request("GET", "/304"))["content-length"]
    assert_nil client.call(request("GET", "/204"))["content-length"]
  end

  def test_6_2_large_bodies_arrive_whole
    body = Random.new(7).bytes(3_000_000)
    { array: [body], pieces: body.scan(/.{1,70000}/mn),
      unknown: Unknown.new(*body.scan(/.{1,9999}/mn)) }.each do |kind, value|
      running = serve { [200, { "content-type" => "application/octet-stream" }, value] }
      client = connect(running)
      assert_equal body, client.call(GET).body, kind.to_s
      assert_equal body.bytesize, client.call(GET).body.bytesize, kind.to_s
    end
  end

  def test_6_3_a_body_of_unknown_length_is_chunked
    running = serve { [200, TEXT.dup, Unknown.new("one", "", "two" * 10_000)] }
    client = connect(running)
    response = client.call(GET)
    assert_equal :chunked, response.framing
    assert_equal "one#{'two' * 10_000}", response.body
    assert client.usable?
  end

  # RFC 9112 6.1: a 1.0 client knows no chunks.
  def test_6_3_a_body_of_unknown_length_for_1_0_ends_with_the_connection
    running = serve { [200, TEXT.dup, Unknown.new("one", "two")] }
    client = connect(running)
    response = client.call(request("GET", "/", { "Connection" => "keep-alive" }, version: "1.0"))
    assert_equal :close, response.framing
    assert_equal "onetwo", response.body
    refute_equal "keep-alive", response["connection"].to_s.downcase
  end

  # RFC 9110 9.3.2: the header fields of GET, without the body.
  def test_6_3_head_has_the_fields_of_get_and_no_body
    running = serve(lint: false) { [200, TEXT.dup, %w[one two]] }
    client = connect(running)
    response = client.call(request("HEAD"), head: true)
    assert_equal "6", response["content-length"]
    assert_equal "text/plain", response["content-type"]
    assert client.usable?
  end

  def test_6_3_head_with_a_body_of_unknown_length
    running = serve { [200, TEXT.dup, Unknown.new("one", "two")] }
    client = connect(running)
    assert_equal 200, client.call(request("HEAD"), head: true).status
    assert client.usable?
  end

  def test_6_3_head_of_an_error
    running = serve { raise "broken" }
    client = connect(running)
    assert_equal 500, client.call(request("HEAD"), head: true).status
    assert client.silent?(0.1) || client.closed?
  end

  # RFC 9112 6.3: whatever the app gives, these have no body.
  def test_6_3_204_and_304_have_no_body
    [204, 304].each do |status|
      running = serve(lint: false) { [status, {}, ["must not be sent"]] }
      client = connect(running)
      client.write(GET + GET)
      2.times { assert_equal [status, ""], client.read.then { |response| [response.status, response.body] } }
      assert client.silent?(0.05)
    end
  end

  # An empty piece must not look like the last chunk (RFC 9112 7.1).
  def test_7_1_empty_pieces_do_not_end_a_chunked_body
    running = serve { [200, TEXT.dup, Unknown.new("", "a", "", "", "b", "")] }
    assert_equal "ab", ask(running).body
  end

  def test_7_1_many_small_pieces
    pieces = Array.new(20_000) { |nth| "#{nth}," }
    body = Unknown.new
    body.define_singleton_method(:each) { |&block| pieces.each(&block) }
    running = serve { [200, TEXT.dup, body] }
    assert_equal pieces.join, ask(running).body
  end

  # Without length and chunks, the end of the connection is the end of the content: a body that broke
  # off must not end in order (RFC 9112 8).
  def test_8_a_broken_body_that_only_the_close_ends_is_reset
    running = serve(lint: false) do
      body = Enumerator.new do |out|
        out << "half"
        raise "broken"
      end
      [200, { "content-type" => "text/plain" }, body]
    end
    # What a client sends behind its request changes nothing.
    ["", "more"].each do |more|
      socket = TCPSocket.new("127.0.0.1", running.port)
      socket.write("GET / HTTP/1.0\r\n\r\n#{more}")
      assert_raises(Errno::ECONNRESET) { Timeout.timeout(20) { socket.read } }
    ensure
      socket&.close
    end
  end

  def test_rfc9110_5_1_a_name_in_capitals_counts_as_the_same_field
    running = serve(lint: false) do
      [200, { "Content-Length" => "3", "Date" => "Sun, 06 Nov 1994 08:49:37 GMT" }, ["abc"]]
    end
    response = ask(running)
    assert_equal "3", response["content-length"]
    assert_equal "Sun, 06 Nov 1994 08:49:37 GMT", response["date"]
  end

  # Rack 3 gives an Array, Rack 2 one String with line ends; either way one line each.
  def test_rfc9110_5_2_repeated_fields
    cookies = Rack.release >= "3" ? %w[a=1 b=2] : "a=1\nb=2"
    running = serve { [200, { "content-type" => "text/plain", "set-cookie" => cookies }, []] }
    assert_equal %w[a=1 b=2], ask(running).all("set-cookie")
  end

  def test_rfc9110_6_6_1_the_date_is_now
    running = serve
    before = Time.now.to_i
    date = ask(running)["date"]
    assert_includes (before - 5)..Time.now.to_i, Time.httpdate(date).to_i
  end

  def test_rfc9110_6_6_1_the_date_moves_on
    client = connect(serve)
    first = client.call(GET)["date"]
    assert eventually { client.call(GET)["date"] != first }
  end

  def test_rfc9110_6_6_1_the_apps_date_is_not_doubled
    running = serve { [200, TEXT.merge("date" => "Sun, 06 Nov 1994 08:49:37 GMT"), ["x"]] }
    assert_equal "Sun, 06 Nov 1994 08:49:37 GMT", ask(running)["date"]
  end

  # RFC 9110 15.3.6
  def test_rfc9110_15_3_6_205_has_an_empty_body
    running = serve(lint: false) { [205, {}, []] }
    client = connect(running)
    response = client.call(GET)
    assert_equal [205, ""], [response.status, response.body]
    assert_equal 205, client.call(GET).status
  end
end
