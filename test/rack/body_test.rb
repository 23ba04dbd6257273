# frozen_string_literal: true

# also: modes sanitized portable rubies

require "tempfile"
require "tmpdir"
require "test_helper"
require "support/server_case"

# Response bodies of every kind, and their close: exactly once, on every path (Rack SPEC, "The Body").
class RackBodyTest < Minitest::Test
  include ServerCase

  # A body that counts how often it is closed, and does what the block says when it is enumerated.
  class Counted
    attr_reader :closed

    def initialize(&each)
      @each = each
      @closed = 0
    end

    def each(&block)
      @each.call(block)
    end

    def close
      @closed += 1
    end
  end

  # Its close raises.
  class FailsToClose < Counted
    def close
      super
      raise "secret of close"
    end
  end

  def give(body, status: 200, headers: TYPE, lint: false, **options)
    serve(lint: lint, **options) { [status, headers.dup, body] }
  end

  def assert_closed_once(body)
    assert eventually { body.closed.positive? }, "never closed"
    nothing_for(0.02) { body.closed == 1 }
  end

  def test_array
    assert_equal "ab", ask(give(%w[a b], lint: true)).body
  end

  def test_enumerator
    assert_equal "0,1,2,", ask(give(3.times.map { |nth| "#{nth}," }.each, lint: true)).body
    assert_equal "abc", ask(give(Enumerator.new { |out| %w[a b c].each { |piece| out << piece } }, lint: true)).body
  end

  def test_each
    body = Counted.new { |out| %w[a b].each { |piece| out.call(piece) } }
    assert_equal "ab", ask(give(body)).body
    assert_closed_once(body)
  end

  def test_pieces_that_are_binary_frozen_empty_or_wide
    body = Counted.new { |out| ["\xFF\x00".b, "é", "", "frozen"].each { |piece| out.call(piece) } }
    assert_equal "\xFF\x00".b + "é".b + "frozen".b, ask(give(body)).body
  end

  # What is streamed goes out at once; it does not wait for the end.
  def test_pieces_are_sent_as_they_come
    gate = Queue.new
    running = give(Counted.new do |out|
      out.call("first")
      gate.pop
      out.call("second")
    end)
    client = connect(running)
    client.write(GET)
    bytes = String.new
    bytes << client.read_some until bytes.include?("first")
    refute_includes bytes, "second"
    gate << true
    bytes << client.read_some until bytes.end_with?("0\r\n\r\n")
    assert_includes bytes, "second"
  end

  def test_to_path
    Tempfile.create("abaca") do |file|
      content = Random.new(3).bytes(700_000)
      file.binmode.write(content)
      file.flush
      body = Counted.new { |out| out.call(content) }
      body.define_singleton_method(:to_path) { file.path }
      client = connect(give(body, headers: TYPE.merge("content-length" => content.bytesize.to_s)))
      assert_equal content, client.call(GET).body
      assert_equal content, client.call(GET).body
      assert eventually { body.closed == 2 }
    end
  end

  def test_to_path_with_rack_files
    Dir.mktmpdir do |dir|
      File.binwrite(File.join(dir, "page.txt"), "content of the page\n" * 5_000)
      files = Rack::Files.new(dir)
      client = connect(serve(files))
      assert_equal "content of the page\n" * 5_000, client.call(request("GET", "/page.txt")).body
      part = client.call(request("GET", "/page.txt", "Range" => "bytes=11-14"))
      assert_equal [206, "the "], [part.status, part.body]
      assert_equal 404, client.call(request("GET", "/none.txt")).status
      assert_equal "100000", client.call(request("HEAD", "/page.txt"))["content-length"]
      assert client.call(request("GET", "/page.txt")).status == 200
    end
  end

  def test_to_path_of_an_empty_file
    Tempfile.create("abaca") do |file|
      body = Counted.new { |_out| nil }
      body.define_singleton_method(:to_path) { file.path }
      client = connect(give(body))
      assert_equal "", client.call(GET).body
      assert_closed_once(body)
      assert_equal "", client.call(GET).body
    end
  end

  # Rack's SPEC: to_path may name what does not exist (any more); each still works.
  def test_to_path_of_a_file_that_is_not_there
    body = Counted.new { |out| out.call("from each") }
    body.define_singleton_method(:to_path) { "/nonexistent/of/abaca" }
    client = connect(give(body))
    response = client.call(GET)
    assert_includes [[200, "from each"], [500, response.body]], [response.status, response.body]
    refute_includes response.body, "nonexistent"
    assert_closed_once(body)
  end

  # Rack 3, "Streaming Body".
  def test_a_body_that_is_called
    body = lambda do |stream|
      stream.write("one")
      stream << "two"
      stream.flush
      stream.write("three")
    ensure
      stream.close
    end
    client = connect(give(body, lint: Rack.release >= "3"))
    assert_equal "onetwothree", client.call(GET).body
    assert_equal "onetwothree", client.call(GET).body
  end

  def test_a_called_body_reads_the_request
    running = serve(lint: false) do |env|
      input = env["rack.input"]
      [200, TYPE.dup, lambda do |stream|
        stream.write(input.read.upcase)
        stream.close
      end]
    end
    assert_equal "HELLO", ask(running, request("POST", body: "hello")).body
  end

  def test_a_called_body_that_raises
    body = lambda do |stream|
      stream.write("one")
      raise "secret"
    end
    running = give(body)
    assert_cut_off(running)
    assert running.logged?(/secret/)
  end

  def test_a_body_that_raises_before_its_first_piece
    body = Counted.new { |_out| raise "secret detail" }
    running = give(body)
    client = connect(running)
    client.write(GET)
    bytes = bytes_of(client)
    refute_includes bytes, "secret"
    refute_match(/0\r\n\r\n\z/, bytes) unless bytes.start_with?("HTTP/1.1 500")
    assert_closed_once(body)
    assert running.logged?(/secret detail/)
  end

  def test_a_body_that_raises_after_its_first_piece
    body = Counted.new do |out|
      out.call("first")
      raise "secret detail"
    end
    running = give(body)
    assert_cut_off(running)
    assert_closed_once(body)
    assert running.logged?(/secret detail/)
  end

  def test_a_body_with_content_length_that_raises
    body = Counted.new do |out|
      out.call("first")
      raise "secret detail"
    end
    assert_cut_off(give(body, headers: TYPE.merge("content-length" => "100")))
    assert_closed_once(body)
  end

  # Less than promised: the client must be able to tell, so the connection ends.
  def test_a_body_shorter_than_its_content_length
    body = Counted.new { |out| out.call("short") }
    running = give(body, headers: TYPE.merge("content-length" => "100"))
    assert_cut_off(running)
    assert_closed_once(body)
    refute_empty running.log
  end

  # More than promised: the rest would be taken for the next response.
  def test_a_body_longer_than_its_content_length
    [Counted.new { |out| 3.times { out.call("12345") } }, %w[12345 12345 12345]].each do |body|
      running = give(body, headers: TYPE.merge("content-length" => "7"))
      client = connect(running)
      client.write(GET)
      bytes = bytes_of(client)
      assert_operator bytes.split("\r\n\r\n", 2).last.bytesize, :<=, 7 unless bytes.start_with?("HTTP/1.1 500")
      assert_closed_once(body) if body.is_a?(Counted)
      refute_empty running.log
    end
  end

  def test_pieces_that_are_not_strings
    [nil, 42, :symbol, Object.new].each do |piece|
      body = Counted.new { |out| out.call(piece) }
      running = give(body)
      client = connect(running)
      client.write(GET)
      refute_match(/\r\n0\r\n\r\n\z/, bytes_of(client))
      assert_closed_once(body)
    end
  end

  def test_close_after_head
    body = Counted.new { |out| out.call("x") }
    assert_equal 200, ask(give(body), request("HEAD")).status
    assert_closed_once(body)
  end

  def test_close_after_204_and_304
    [204, 304].each do |status|
      body = Counted.new { |out| out.call("x") }
      assert_equal status, ask(give(body, status: status, headers: {})).status
      assert_closed_once(body)
    end
  end

  def test_close_when_the_client_is_gone
    body = Counted.new do |out|
      1_000.times do
        out.call("x" * 100_000)
        sleep 0.001
      end
    end
    client = connect(give(body, write_timeout: 2))
    client.write(GET).read_some
    client.reset
    assert_closed_once(body)
  end

  def test_close_of_an_invalid_response
    body = Counted.new { |out| out.call("x") }
    assert_equal 500, ask(give(body, headers: { "x" => "a\r\nb: c" })).status
    assert_closed_once(body)
  end

  # A streaming body with a close, on every path that ends it.
  class Callable < Counted
    undef_method :each

    def call(stream) = @each.call(stream)
  end

  STREAMS = {
    "closed" => ->(stream) { stream.write("x") && stream.close },
    "closed twice" => ->(stream) { 2.times { stream.close } },
    "raised before" => ->(_stream) { raise "x" },
    "raised after" => ->(stream) { stream.write("x") && raise("x") },
    "raised when closed" => ->(stream) { stream.close || raise("x") },
    "closed by another fiber" => ->(stream) { ServerCase.beside { stream.close } }
  }.freeze

  def test_close_of_streaming_bodies
    STREAMS.each do |name, code|
      %w[GET HEAD].each do |verb|
        body = Callable.new(&code)
        connect(give(body)).write(request(verb)).read_some
        assert eventually { body.closed == 1 }, "#{name}, #{verb}: #{body.closed}"
      end
    end
  end

  def test_close_when_the_client_of_a_stream_is_gone
    body = Callable.new { |stream| loop { stream.write("x" * 100_000) } }
    client = connect(give(body)).write(GET)
    client.read_some
    client.reset
    assert_closed_once(body)
  end

  UPGRADE = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"

  def test_close_of_an_upgrade_and_of_a_partial_hijack
    { "an upgrade" => [101, { "rack.protocol" => "echo" }, :close.to_proc],
      "an upgrade that raises" => [101, { "rack.protocol" => "echo" }, ->(_stream) { raise "x" }],
      "a refused upgrade" => [101, { "rack.protocol" => "other" }, ->(_stream) {}],
      "a hijack" => [200, { "rack.hijack" => :close.to_proc }, nil],
      "a hijack that raises" => [200, { "rack.hijack" => ->(_stream) { raise "x" } }, nil] }
      .each do |name, (status, headers, code)|
        body = code ? Callable.new(&code) : Counted.new { |_out| raise "unseen" }
        connect(give(body, status: status, headers: headers)).write(UPGRADE).read_some
        assert eventually { body.closed == 1 }, "#{name}: #{body.closed}"
      end
  end

  def test_close_when_trailers_fail
    [-> { raise "x" }, -> { { "host" => "x" } }].each do |trailers|
      body = Counted.new { |out| out.call("x") }
      connect(give(body, headers: TYPE.merge("abaca.trailers" => trailers))).write(GET).read_some
      assert_closed_once(body)
    end
  end

  def test_close_that_raises
    body = FailsToClose.new { |out| out.call("whole") }
    running = give(body)
    client = connect(running)
    assert_equal "whole", client.call(GET).body
    assert_closed_once(body)
    assert running.logged?(/secret of close/)
    assert_equal 200, ask(running).status
  end

  def test_each_and_close_both_raise
    body = FailsToClose.new { |_out| raise "secret of each" }
    running = give(body)
    client = connect(running)
    client.write(GET)
    refute_includes bytes_of(client), "secret"
    assert_closed_once(body)
    assert running.logged?(/secret of each/)
    assert running.logged?(/secret of close/)
  end

  def test_a_body_proxy_is_closed
    closed = Queue.new
    body = Rack::BodyProxy.new(%w[a b]) { closed << true }
    assert_equal "ab", ask(give(body, lint: true)).body
    assert eventually { closed.size == 1 }
  end

  # An Array has no close, but it may have been given one.
  def test_an_array_with_a_close
    closed = Queue.new
    kind = Class.new(Array) { define_method(:close) { closed << :kind } }
    bodies = { "/one" => %w[a b].tap { |array| array.define_singleton_method(:close) { closed << :one } },
               "/kind" => kind.new(%w[c d]), "/bad" => kind.new(["e", 1]), "/plain" => %w[f] }
    client = connect(serve(lint: false) { |env| [200, TYPE.dup, bodies.fetch(env["PATH_INFO"])] })
    assert_equal ["ab", "", "cd", "500 Internal Server Error\n", "f"],
                 [%w[GET /one], %w[HEAD /one], %w[GET /kind], %w[GET /bad], %w[GET /plain]].map { |verb, path|
                   client.call(request(verb, path)).body
                 }
    assert_equal %i[one one kind kind], Array.new(closed.size) { closed.pop }
  end

  # A body may keep the block that it was given, and call it in its close or in another request.
  def test_a_block_that_is_called_when_each_is_over
    kept = nil
    said = Queue.new
    body = Object.new
    body.define_singleton_method(:each) { |&block| (kept = block).call("content") }
    body.define_singleton_method(:close) { said << (kept.call("more") rescue $!) } # rubocop:disable Style
    running = serve(lint: false) do |env|
      said << (kept.call("more") rescue $!) if env["PATH_INFO"] == "/later" # rubocop:disable Style
      [200, { "content-type" => "text/plain" }, env["PATH_INFO"] == "/later" ? ["other"] : body]
    end
    client = connect(running)
    assert_equal %w[content other other], %w[/ /later /later].map { |path| client.call(request("GET", path)).body }
    assert_equal [IOError] * 3, Array.new(3) { said.pop.class }
  end

  # The app may wait inside each, as it may anywhere.
  def test_each_that_waits
    body = Counted.new do |out|
      3.times do |nth|
        sleep 0.02
        out.call(nth.to_s)
      end
    end
    running = give(body)
    clients = Array.new(20) { connect(running).write(GET) }
    assert_equal ["012"] * 20, clients.map { |client| client.read.body }
  end

  private

  # Whatever comes until the connection ends or, after the first bytes, falls silent.
  def bytes_of(client)
    bytes = String.new(encoding: Encoding::BINARY)
    while (data = client.read_some)
      bytes << data
      break unless client.socket.wait_readable(0.3)
    end
    bytes
  rescue Errno::ECONNRESET
    bytes
  end

  # The response must not look whole: no last chunk, or fewer bytes than it said.
  def assert_cut_off(running)
    client = connect(running)
    client.write(GET)
    begin
      response = client.read
      assert_equal 500, response.status
    rescue Wire::Malformed, EOFError, Errno::ECONNRESET => e
      refute_includes e.message, "secret"
      return
    end
    refute_includes response.body, "secret"
  end
end
