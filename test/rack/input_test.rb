# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# rack.input (Rack SPEC, "The Input Stream"), in memory and from a temporary file.
class RackInputTest < Minitest::Test
  include ServerCase

  # What the block makes of rack.input, for a body that is held in memory and for one in a file.
  def with_input(body, chunks: nil, **options)
    results = [1_048_576, 16].map do |memory|
      result = nil
      running = serve(lint: false, max_body_memory: memory, **options) do |env|
        result = begin
          yield env["rack.input"]
        rescue StandardError, Minitest::Assertion => e
          e
        end
        [200, { "content-type" => "text/plain" }, []]
      end
      octets = if chunks
                 request("POST", "/",
                         "Transfer-Encoding" => "chunked") + chunked(*chunks)
               else
                 request("POST", body: body)
               end
      assert_equal 200, ask(running, octets).status
      raise result if result.is_a?(Exception)

      result
    end
    assert_equal results[0], results[1], "memory and file differ"
    results.first
  end

  TEXT = "first line\nsecond line\n\nlast without end"

  def test_read_without_length
    assert_equal [TEXT, ""], with_input(TEXT) { |input| [input.read, input.read] }
  end

  def test_read_with_length
    assert_equal ["first", " line\nsec", "", TEXT[14..], nil, nil], (with_input(TEXT) do |input|
      [input.read(5), input.read(9), input.read(0), input.read(10_000), input.read(1), input.read(10_000)]
    end)
  end

  def test_read_into_a_buffer
    with_input(TEXT) do |input|
      buffer = String.new("old content")
      assert_same buffer, input.read(5, buffer)
      assert_equal "first", buffer
      assert_same buffer, input.read(nil, buffer)
      assert_equal TEXT[5..], buffer
      assert_nil input.read(5, buffer)
      assert_equal "", buffer
      true
    end
  end

  def test_read_refuses_nonsense
    with_input(TEXT) do |input|
      assert_raises(ArgumentError) { input.read(-1) }
      assert_raises(TypeError) { input.read("x") }
      assert_raises(FrozenError) { input.read(5, "frozen") }
      true
    end
  end

  def test_what_is_read_is_binary
    bytes = (0..255).map(&:chr).join.b
    assert_equal [bytes, true, true], (with_input(bytes) do |input|
      start = input.read(3)
      rest = input.read
      [start + rest, start.encoding == Encoding::BINARY, rest.encoding == Encoding::BINARY]
    end)
  end

  def test_gets
    assert_equal TEXT.lines + [nil, nil], with_input(TEXT) { |input| Array.new(6) { input.gets } }
  end

  def test_each
    lines = with_input(TEXT) do |input|
      seen = []
      input.each(&seen.method(:push))
      seen
    end
    assert_equal TEXT.lines, lines
  end

  def test_gets_after_read_and_read_after_gets
    assert_equal ["fir", "st line\n", "second", " line\n"], (with_input(TEXT) do |input|
      [input.read(3), input.gets, input.read(6), input.gets]
    end)
  end

  # Rack 2 demands it; Rack 3 leaves it to the server.
  def test_rewind
    skip "rack.input does not rewind" unless with_input("x") { |input| input.respond_to?(:rewind) }
    assert_equal [TEXT, "first", TEXT, TEXT.lines.first], (with_input(TEXT) do |input|
      [input.read, input.tap(&:rewind).read(5), input.tap(&:rewind).read, input.tap(&:rewind).gets]
    end)
  end

  # Rack 3: after close the app must not read, and closing again does no harm to the server.
  def test_close
    with_input(TEXT) do |input|
      if input.respond_to?(:close)
        input.close
        input.close
      end
      true
    end
  end

  def test_no_body
    seen = Queue.new
    running = serve do |env|
      seen << env["rack.input"]&.read
      [200, { "content-type" => "text/plain" }, []]
    end
    [GET, request("POST", body: ""), request("POST", "/", "Transfer-Encoding" => "chunked") + chunked].each do |octets|
      ask(running, octets)
      assert_includes [nil, ""], seen.pop
    end
  end

  def test_chunks_are_joined
    assert_equal "onetwothree" * 10, with_input(nil, chunks: %w[one two three] * 10, &:read)
  end

  def test_a_long_line
    line = "#{'x' * 500_000}\n"
    assert_equal [line, line], with_input(line * 2) { |input| [input.gets, input.gets] }
  end

  # The input of one request knows nothing of the next one's octets.
  def test_reading_stops_at_the_end_of_the_body
    seen = Queue.new
    running = serve do |env|
      seen << env["rack.input"].read(1_000)
      [200, { "content-type" => "text/plain" }, []]
    end
    client = connect(running)
    client.write(request("POST", body: "one") + request("POST", body: "two"))
    2.times { client.read }
    assert_equal %w[one two], [seen.pop, seen.pop]
  end

  # Frameworks keep the env; the body they hold must not change or crash when the request is over.
  def test_an_input_that_outlives_its_request
    inputs = Queue.new
    running = serve(lint: false) do |env|
      inputs << env["rack.input"]
      [200, { "content-type" => "text/plain" }, []]
    end
    client = connect(running)
    5.times { |nth| client.call(request("POST", body: nth.to_s * 50)) }
    running.stop
    until inputs.empty?
      content = begin
        inputs.pop.read
      rescue IOError, Abaca::Error
        nil
      end
      assert content.nil? || content.empty? || content.match?(/\A(\d)\1{49}\z/), content.inspect
    end
  end

  # A body that breaks off is never passed on as if it were whole.
  def test_a_body_that_breaks_off
    seen = Queue.new
    running = serve do |env|
      seen << env["rack.input"].read
      [200, { "content-type" => "text/plain" }, []]
    rescue StandardError => e
      seen << e
      raise
    end
    client = connect(running)
    client.write(request("POST", "/", "Content-Length" => "100") + "short")
    client.half_close
    assert client.closed?
    assert(seen.empty? || seen.pop.is_a?(StandardError), "the app was given half a body")
  end
end
