# frozen_string_literal: true

# also: modes tls sanitized portable rubies

require "minitest/mock"
require "timeout"
require "test_helper"
require "support/test_build"
require "support/server_case"

# rack.input (Rack SPEC, "The Input Stream"): streamed, and rewindable, kept in memory and in a temporary
# file; the body in one piece, and byte by byte.
class RackInputTest < Minitest::Test
  include ServerCase

  KINDS = { streamed: { rewindable_input: false },
            kept: { rewindable_input: true },
            in_a_file: { rewindable_input: true, max_body_memory: 16 } }.freeze

  # What the block makes of rack.input, which must be the same for each kind of it.
  def with_input(body, chunks: nil, kinds: KINDS.keys, **options, &block)
    bytes = if chunks
              request("POST", "/", "Transfer-Encoding" => "chunked") + chunked(*chunks)
            else
              request("POST", body: body)
            end
    results = kinds.map { |kind| [kind, input_result(bytes, **KINDS.fetch(kind), **options, &block)] }
    results.each { |kind, result| assert_equal results.first.last, result, "#{kind} differs from #{kinds.first}" }
    results.first.last
  end

  # Short ones come once more in pieces, each of which wakes the reader.
  def input_result(bytes, **options, &block)
    result = send_to_input([bytes], **options, &block)
    pieces = bytes.bytesize < 1_000 ? [bytes[0..-40], *bytes[-39..].chars] : [bytes]
    in_pieces = send_to_input(pieces, **options, &block)
    assert_equal result, in_pieces, "in pieces"
    result
  end

  def send_to_input(pieces, **options)
    result = nil
    running = serve(lint: false, **options) do |env|
      result = begin
        yield env["rack.input"]
      rescue StandardError, Minitest::Assertion => e
        e
      end
      [200, { "content-type" => "text/plain" }, []]
    end
    client = connect(running)
    pieces.each { |piece| client.write(piece).then { sleep 0.0005 } }
    assert_equal 200, client.read.status
    finish(running)
    raise result if result.is_a?(Exception)

    result
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
    rewindable = %i[kept in_a_file]
    assert_equal [TEXT, "first", TEXT, TEXT.lines.first], (with_input(TEXT, kinds: rewindable) do |input|
      [input.read, input.tap(&:rewind).read(5), input.tap(&:rewind).read, input.tap(&:rewind).gets]
    end)
    assert_equal ["fir", TEXT, "", TEXT.lines, nil], (with_input(TEXT, kinds: rewindable) do |input|
      [input.read(3), input.tap(&:rewind).read, input.read, input.tap(&:rewind).each.to_a, input.gets]
    end)
  end

  # Code that is interrupted while it waits may read again from the start, as reporters of errors do. The time
  # limit leaves a busy machine time to keep what has come: an interruption just then loses the body, by design.
  def test_rewind_after_a_read_that_was_interrupted
    { [:read] => :kept, [:read, 21] => :kept, [:read, 25] => :in_a_file, [:gets] => :in_a_file }.each do |call, kind|
      waits = Queue.new
      sent = Queue.new
      running = serve(lint: false, **KINDS.fetch(kind), **STREAMED) do |env|
        begin
          Timeout.timeout(0.3) { env["rack.input"].public_send(*call) }
        rescue Timeout::Error
          waits << sent
        end
        sent.pop
        env["rack.input"].rewind
        [200, { "content-type" => "text/plain" }, [env["rack.input"].read]]
      end
      client = connect(running).write("#{request('POST', '/', 'Content-Length' => '30')}#{'abcd' * 5}")
      waits.pop << true
      assert_equal "#{'abcd' * 5}#{'efghi' * 2}", client.call("efghi" * 2).body, "#{call} #{kind}"
    end
  end

  # What could not be kept is missing for good: what follows must not pass for the whole.
  def test_rewind_after_a_part_that_was_not_kept
    running = serve(lint: false, rewindable_input: true, max_body_memory: 1_000) do |env|
      input = env["rack.input"]
      errors = Array.new(3) do
        input.rewind
        input.read
      rescue Abaca::StorageError => e
        e
      end
      input.rewind
      [200, { "content-type" => "text/plain" }, [errors.map(&:class).join(" "), " ", input.read(5)]]
    end
    bytes = request("POST", body: ("a" * 600) + ("b" * 600))
    # No file can be made there, whoever we are.
    response = Dir.stub(:tmpdir, "/proc/self") { ask(running, bytes) }
    assert_equal "#{(['Abaca::StorageError'] * 3).join(' ')} aaaaa", response.body
  end

  # Who asks respond_to?(:rewind) goes by the answer.
  def test_a_streamed_input_does_not_claim_to_rewind
    assert(with_input("x", kinds: [:streamed]) { |input| !input.respond_to?(:rewind) })
    running = serve do |env|
      [200, { "content-type" => "text/plain" }, [env["rack.input"].respond_to?(:rewind).to_s]]
    end
    assert_equal (Rack.release.to_i < 3).to_s, ask(running, request("POST", body: "x")).body
  end

  def test_lines_across_what_is_kept
    assert_equal ["fi", TEXT.lines[0], TEXT.lines[1]], (with_input(TEXT, kinds: %i[kept in_a_file]) do |input|
      start = input.read(2)
      input.rewind
      [start, input.gets, input.gets]
    end)
  end

  def test_gets_with_separator_limit_and_chomp
    assert_equal ["first l", "in", "e\nsec", "ond line", "\nlast wi", "thout end", nil], (with_input(TEXT) do |input|
      [input.gets("l"), input.gets("\n", 2), input.gets("c"), input.gets(chomp: true), input.gets("i"), input.gets(nil),
       input.gets]
    end)
    assert_equal ["first line\nsecond line\n\n", TEXT[-16..], nil],
                 with_input(TEXT) { |input| Array.new(3) { input.gets("") } }
    assert_equal ["a\r\n", "b\rc\r\n", "\r"], with_input("a\r\nb\rc\r\n\r") { |input|
      Array.new(3) {
        input.gets("\r\n")
      }
    }
    assert_equal ["", "abc"], with_input("abc") { |input| [input.gets("\n", 0), input.gets(nil, 10)] }
  end

  # Paragraphs end with one empty line; more of them are not part of any.
  def test_gets_of_paragraphs
    text = "\n\na\nb\n\n\n\n\nlong one\n\nlast\n"
    assert_equal ["a\nb\n\n", "long one\n\n", "last\n", nil], with_input(text) { |input|
      Array.new(4) {
        input.gets("")
      }
    }
    assert_equal ["a\nb", "long one", "last\n", nil],
                 with_input(text) { |input| Array.new(4) { input.gets("", chomp: true) } }
    assert_equal ["a\nb", "lon", "g o", "ne\n", "las"], with_input(text) { |input| Array.new(5) { input.gets("", 3) } }
    assert_equal [nil, nil], with_input("\n\n\n") { |input| Array.new(2) { input.gets("") } }
  end

  # What is no line end is content, as for IO#gets.
  def test_chomp_takes_line_ends_alone
    assert_equal ["ab\r", "", "c", "d\r", nil], (with_input("ab\r\nc\r\nd\r") do |input|
      [input.gets("\n", 3, chomp: true), input.gets(chomp: true), input.gets(chomp: true), input.gets(chomp: true),
       input.gets(chomp: true)]
    end)
    assert_equal ["a\n", "b\r\n"], with_input("a\nxb\r\n") { |input| Array.new(2) { input.gets("x", chomp: true) } }
  end

  # As IO#gets.
  def test_gets_with_a_limit_alone
    assert_equal ["a", "bc\n", "d\n", "ef", nil], (with_input("abc\nd\nef") do |input|
      [input.gets(1), input.gets(5), input.gets(-1), input.gets("\n", -1), input.gets(3)]
    end)
  end

  def test_gets_converts_its_limit
    assert_equal ["a", "bc", "d\n", nil], (with_input("abc\n\nd\n") do |input|
      [input.gets("\n", 1.9), input.gets("", 2.9), input.gets("", 3.1), input.gets("", -1.5)]
    end)
    ["abc", ""].each do |body|
      assert(with_input(body) { |input| assert_raises(TypeError) { input.gets("\n", "1") } && true })
    end
  end

  def test_readpartial
    assert_equal [TEXT, true], (with_input(TEXT) do |input|
      buffer = String.new("old")
      read = String.new(encoding: Encoding::BINARY)
      begin
        loop { read << input.readpartial(7, buffer) }
      rescue EOFError
        [read, input.readpartial(0) == ""]
      end
    end)
    with_input(TEXT) { |input| assert_raises(ArgumentError) { input.readpartial(-1) } && true }
  end

  def test_copy_stream
    assert_equal TEXT, (with_input(TEXT) do |input|
      copy = StringIO.new
      IO.copy_stream(input, copy)
      copy.string
    end)
  end

  def test_eof
    assert_equal [false, "first", false, TEXT[5..], true, true], (with_input(TEXT) do |input|
      [input.eof?, input.read(5), input.eof?, input.read(1_000), input.eof?, input.eof?]
    end)
  end

  def test_size_and_encoding
    assert_equal [TEXT.bytesize, Encoding::BINARY, TEXT.bytesize], (with_input(TEXT) do |input|
      [input.size, input.external_encoding, input.tap { input.binmode.set_encoding("UTF-8").read }.size]
    end)
    assert_equal [nil, 11], (with_input(nil, chunks: %w[one twothree]) do |input|
      before = input.size
      [before, input.tap(&:read).size]
    end)
  end

  # The client's announcement alone costs no memory.
  def test_a_long_announcement_is_not_believed
    running = serve(lint: false) do |env|
      [200, { "content-type" => "text/plain" }, [env["rack.input"].read.to_s]]
    end
    client = connect(running)
    client.write(request("POST", "/", "Content-Length" => (1 << 50).to_s) + "start")
    assert client.silent?(0.05)
    memory = resident
    client.reset
    assert_operator memory, :<, 4_000_000
  end

  def resident = File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i

  # There is room for 64 KB that may come at once, and it takes memory when they do.
  def test_a_reader_that_waits_takes_no_memory_for_what_has_not_come
    skip "threads and other schedulers have memory of their own" unless ServerCase::MODE.empty?
    skip "a sanitizer keeps what is freed for a while" if TestBuild.sanitized?
    skip "clients with TLS take memory of this process" if ServerCase::TLS
    reading = 0
    running = serve(lint: false, **ServerCase::STREAMED) do |env|
      reading += 1
      [200, { "content-type" => "text/plain" }, [env["rack.input"].read(env["PATH_INFO"].delete_prefix("/").to_i).to_s]]
    end
    growth = nil
    crowd(running, 100, "/16", -> { reading == 100 }) { nil } # the fibers, which are kept
    before = resident
    crowd(running, 100, "/65536", -> { reading == 200 }) { growth = resident - before }
    assert_operator growth / 100, :<, 32
  end

  # So many clients that send a head without its body, and are gone after the block.
  def crowd(running, size, path, ready)
    bytes = request("POST", path, "Transfer-Encoding" => "chunked")
    clients = Array.new(size) { connect(running).write(bytes) }
    assert eventually(&ready)
    yield
  ensure
    clients&.each(&:reset)
    assert eventually { running.server.stats[:in_app].zero? }
  end

  # Rack 3: after close nothing can be read, and closing again does no harm.
  def test_close
    with_input(TEXT) do |input|
      assert_equal "fir", input.read(3)
      assert_equal [nil, nil, true], [input.close, input.close, input.closed?]
      assert_raises(IOError) { input.read }
      assert_raises(IOError) { input.gets }
      assert_raises(IOError) { input.readpartial(1) }
      true
    end
  end

  def test_no_body
    seen = Queue.new
    running = serve do |env|
      seen << env["rack.input"]&.read
      [200, { "content-type" => "text/plain" }, []]
    end
    [GET, request("POST", body: ""), request("POST", "/", "Transfer-Encoding" => "chunked") + chunked].each do |bytes|
      ask(running, bytes)
      assert_includes [nil, ""], seen.pop
    end
  end

  # Who wrote for an input with bytes shall not stumble over one that has none.
  def test_no_body_answers_as_a_body_that_has_been_read
    used = with_input("x") { |input| input.read and what_an_input_at_its_end_says(input) }
    none = send_to_input([GET], rewindable_input: false) { |input| what_an_input_at_its_end_says(input) }
    assert_equal used, none
  end

  def what_an_input_at_its_end_says(input)
    buffer = +"\u00e9"
    texts = [input.read, input.read(0), (input.read(nil, buffer) and buffer), (input.read(3, buffer) or buffer)]
    partial = input.readpartial(0)
    assert_raises(EOFError) { input.readpartial(1) }
    assert_raises(ArgumentError) { input.read(-1) }
    assert_raises(ArgumentError) { input.readpartial(-1) }
    assert_raises(TypeError) { input.read("3") }
    [texts, texts.map(&:encoding), partial, input.read(1.5), input.gets, input.each.to_a, input.eof?]
  end

  def test_chunks_are_joined
    assert_equal "onetwothree" * 10, with_input(nil, chunks: %w[one two three] * 10, &:read)
  end

  def test_a_long_line
    line = "#{'x' * 500_000}\n"
    assert_equal [line, line], with_input(line * 2) { |input| [input.gets, input.gets] }
  end

  # Rack 3.1 lets the server say so; the default is an empty input, for all who do not ask.
  def test_nil_input
    if Gem::Version.new(Rack.release) < Gem::Version.new("3.1")
      assert_raises(Abaca::ConfigError) { Abaca::Config.new({ null_input: false }) }
      return
    end
    seen = Queue.new
    running = serve(null_input: false) do |env|
      seen << env["rack.input"]&.read
      [200, { "content-type" => "text/plain" }, []]
    end
    ask(running)
    assert_nil seen.pop
    ask(running, request("POST", body: "x"))
    assert_equal "x", seen.pop
  end

  # The input of one request knows nothing of the next one's bytes.
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
