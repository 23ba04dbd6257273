# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9112 7.1.2 and RFC 9110 6.5: fields behind the content, which an app gives in its response's
# headers under "abaca.trailers".
class Http1S7ResponseTrailersTest < Minitest::Test
  include ServerCase

  # The bytes of the answer, and what an app that gives `trailers` does.
  def answer(trailers, body: %w[one two].each, headers: {}, bytes: GET, lint: false)
    running = serve(lint: lint) { [200, TYPE.merge("abaca.trailers" => trailers).merge(headers), body] }
    client = connect(running).write(bytes.sub("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
    head, content = drain(client).split("\r\n\r\n", 2)
    [head, content, running]
  end

  def drain(client)
    client.drain
  rescue Errno::ECONNRESET
    ""
  end

  CONTENT = "3\r\none\r\n3\r\ntwo\r\n"

  def test_7_1_2_a_hash_is_announced
    head, content, = answer({ "x-sum" => "42", "server-timing" => "app;dur=1" })
    assert_match(/^trailer: x-sum, server-timing\r$/i, head)
    assert_equal "#{CONTENT}0\r\nx-sum: 42\r\nserver-timing: app;dur=1\r\n\r\n", content
    refute_match(/abaca/, head)
  end

  def test_7_1_2_values_may_be_arrays
    _, content, = answer({ "x-a" => %w[1 2] })
    assert_equal "#{CONTENT}0\r\nx-a: 1\r\nx-a: 2\r\n\r\n", content
  end

  # A callable knows what was sent: it is asked when the content is complete.
  def test_7_1_2_a_callable
    bytes = 0
    body = Enumerator.new { |out| 3.times { |nth| out << ("x" * nth.succ).tap { |piece| bytes += piece.size } } }
    head, content, = answer(-> { { "x-bytes" => bytes.to_s } }, body: body, headers: { "trailer" => "x-bytes" })
    assert_equal 1, head.scan(/^trailer: x-bytes\r$/i).size
    assert content.end_with?("0\r\nx-bytes: 6\r\n\r\n"), content
  end

  # A Hash may be filled while the body is made.
  def test_7_1_2_a_hash_that_is_filled_later
    trailers = {}
    body = Enumerator.new do |out|
      out << "one"
      trailers["x-sum"] = "1"
    end
    _, content, = answer(trailers, body: body)
    assert content.end_with?("0\r\nx-sum: 1\r\n\r\n"), content
  end

  def test_7_1_2_nothing_to_say
    [{}, -> {}, -> { {} }].each do |trailers|
      head, content, = answer(trailers)
      refute_match(/^trailer:/i, head)
      assert_equal "#{CONTENT}0\r\n\r\n", content
    end
  end

  # Only chunks leave room for them, so an Array has them in place of its length.
  def test_7_1_2_array_bodies_and_streams
    _, content, = answer({ "x-a" => "1" }, body: %w[one two])
    assert_equal "#{CONTENT}0\r\nx-a: 1\r\n\r\n", content
    _, content, = answer({ "x-a" => "1" }, body: ->(stream) { stream.write("one", "two") && stream.close })
    assert_equal "#{CONTENT}0\r\nx-a: 1\r\n\r\n", content
  end

  # Where they cannot go the response goes without.
  def test_7_1_2_where_there_is_no_room
    asked = Queue.new
    trailers = -> { asked << 1 and { "x-a" => "1" } }
    [{ bytes: request("GET", version: "1.0") }, { headers: { "content-length" => "6" } },
     { bytes: request("HEAD") }].each do |how|
      head, content, = answer(trailers, **how)
      assert head.start_with?("HTTP/1.1 200"), how.inspect
      refute_match(/^x-a:|^0\r$/, content.to_s)
    end
    assert_empty asked
  end

  def test_7_1_2_the_connection_goes_on
    running = serve(lint: false) { [200, TYPE.merge("abaca.trailers" => { "x-a" => "1" }), ["x"]] }
    client = connect(running).write(GET * 2)
    bytes = +""
    bytes << client.read_some until bytes.scan("0\r\nx-a: 1\r\n\r\n").size == 2
    assert_equal 2, bytes.scan("HTTP/1.1 200 OK").size
  end

  # Each row: what cannot be sent. Known before the head it is a 500; afterwards the content is cut
  # off before its last chunk, since nobody must take it for whole (RFC 9112 8).
  REFUSED = {
    "CR" => { "x" => "a\rb" }, "LF" => { "x" => "a\0b" }, "CRLF in a name" => { "x\r\ny" => "1" },
    "empty name" => { "" => "1" }, "hash" => { "x" => { 1 => 2 } }, "symbol" => { x: "1" }, "DEL" => { "x" => "\x7f" },
    "content-length" => { "Content-Length" => "1" }, "transfer-encoding" => { "transfer-encoding" => "chunked" },
    "host" => { "host" => "x" }, "set-cookie" => { "set-cookie" => "a=b" }, "trailer" => { "trailer" => "x" },
    "content-type" => { "content-type" => "x/y" }, "authorization" => { "authorization" => "x" },
    "cache-control" => { "cache-control" => "no-store" }, "connection" => { "connection" => "close" }
  }.freeze

  def test_7_1_2_what_is_refused
    REFUSED.each do |name, trailers|
      [trailers, -> { trailers }].each do |given|
        head, content, running = answer(given)
        refute_match(/\r\n0\r\n/, content.to_s, name)
        assert running.logged?(/invalid response/), name
        assert(head.start_with?("HTTP/1.1 500") || content == CONTENT, name)
      end
    end
  end

  def test_7_1_2_a_callable_that_raises
    _, content, running = answer(-> { raise "secret" })
    assert_equal CONTENT, content
    assert running.logged?(/secret/)
  end

  def test_7_1_2_not_with_chunks_of_the_apps_own
    head, = answer({ "x-a" => "1" }, headers: { "transfer-encoding" => "chunked" }, body: ["0\r\n\r\n"])
    assert head.start_with?("HTTP/1.1 500")
  end

  # Nothing below 0x20 but HTAB leaves in a field, whatever an app may give.
  def test_7_1_2_no_control_byte_leaves
    random = Random.new(20_260_102)
    given = nil
    running = serve(lint: false) { [200, TYPE.merge("abaca.trailers" => -> { given }), ["body"].each] }
    300.times do
      given = { "x-#{random.bytes(random.rand(0..2))}" => random.bytes(random.rand(0..4)) }
      bytes = drain(connect(running).write(request("GET", "/", "Connection" => "close")))
      section = bytes[/\r\n0\r\n(.*)\z/mn, 1] or next
      next if section == "\r\n" # a value of line ends alone is none

      assert section.end_with?("\r\n\r\n"), given.inspect
      lines = section.chomp("\r\n\r\n").split("\r\n", -1)
      assert_equal 1, lines.size, given.inspect
      refute_match(/[\x00-\x08\x0a-\x1f\x7f]/n, lines.first, given.inspect)
    end
  end
end
