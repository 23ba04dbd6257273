# frozen_string_literal: true

# also: modes sanitized portable rubies

require "minitest/mock"
require "tmpdir"
require "test_helper"
require "support/digests"
require "support/server_case"

# Request bodies: framing, 100-continue, limits (RFC 9112 6, 7; RFC 9110 10.1.1); memory and temporary files
# of those that can be rewound. What streams is in streaming_body_test.rb.
class Http1S6RequestBodiesTest < Minitest::Test
  include ServerCase
  include Digests

  def test_6_2_max_body_size_with_content_length
    running = serve(DIGEST, max_body_size: 1_000)
    [999, 1_000].each { |size| assert_equal summary("x" * size), ask(running, request("POST", body: "x" * size)).body }
    client = connect(running)
    client.write(request("POST", "/", "Content-Length" => "1001")) # not one byte of the body
    response = client.read
    assert_equal 413, response.status
    assert response.close?
    assert client.closed?
  end

  def test_6_3_bodies_around_the_limit_of_memory
    [true, *(false if Rack.release.to_i >= 3)].each { |rewindable| bodies_around_the_limit_of_memory(rewindable) }
  end

  def bodies_around_the_limit_of_memory(rewindable)
    running = serve(DIGEST, max_body_memory: 10_000, rewindable_input: rewindable)
    client = connect(running)
    [1, 9_999, 10_000, 10_001, 100_000, 1_000_000].each do |size|
      body = Random.new(size).bytes(size)
      assert_equal summary(body), client.call(request("POST", body: body)).body, "Content-Length #{size}"
      pieces = body.scan(/.{1,7777}/mn)
      chunks = request("POST", "/", "Transfer-Encoding" => "chunked") + chunked(*pieces)
      assert_equal summary(body), client.call(chunks).body, "chunked #{size}"
    end
  end

  # Temporary files have no name, or lose it at once: nothing may stay in the directory.
  def test_6_3_temporary_files_are_removed
    Dir.mktmpdir do |dir|
      with_tmpdir(dir) do
        running = serve(DIGEST, max_body_memory: 1_000, rewindable_input: true)
        client = connect(running)
        body = "x" * 200_000
        assert_equal summary(body), client.call(request("POST", body: body)).body
        half = connect(running)
        half.write(request("POST", "/", "Content-Length" => "200000") + ("x" * 100_000))
        caught_up(running)
        half.reset
        assert_equal summary(body), client.call(request("POST", body: body)).body
        running.stop
        assert_empty Dir.children(dir)
      end
    end
  end

  # The device is full, or there is no directory: this request's problem alone.
  def test_6_3_no_room_for_a_temporary_file
    running = serve(DIGEST, max_body_memory: 1_000, rewindable_input: true)
    client = connect(running)
    Dir.stub(:tmpdir, "/proc/self") do # no file can be made there, whoever we are
      assert_equal 507, client.call(request("POST", body: "x" * 2_000)).status
      assert_equal summary("x" * 900), connect(running).call(request("POST", body: "x" * 900)).body
    end
    assert running.logged?(/StorageError/)
    assert_equal summary("x" * 2_000), connect(running).call(request("POST", body: "x" * 2_000)).body
  end

  def test_6_3_a_body_that_nobody_reads_is_skipped
    client = connect(serve(IGNORE))
    [5, 100_000, 500_000].each do |size|
      response = client.call(request("POST", body: "GET /smuggled HTTP/1.1\r\n".ljust(size, "x")))
      assert_equal "ignored", response.body
      return assert(client.closed?) if response.close?
    end
    assert client.usable?
  end

  def test_7_1_a_chunked_upload_of_20_megabytes
    running = serve(DIGEST)
    client = connect(running)
    piece = Random.new(1).bytes(64 * 1024)
    digest = Digest::SHA256.new
    client.write(request("POST", "/", "Transfer-Encoding" => "chunked"))
    320.times do
      digest << piece
      client.write("10000\r\n").write(piece).write("\r\n")
    end
    client.write("0\r\n\r\n")
    assert_equal "#{320 * 64 * 1024} #{digest.hexdigest}", client.read.body
    assert client.silent?(0.01)
  end

  def test_7_1_max_body_size_with_chunks
    running = serve(DIGEST, max_body_size: 1_000)
    head = request("POST", "/", "Transfer-Encoding" => "chunked")
    [999, 1_000].each do |size|
      assert_equal summary("x" * size), ask(running, head + chunked("x" * 500, "x" * (size - 500))).body
    end
    client = connect(running)
    client.write("#{head}1f4\r\n#{'x' * 500}\r\n1f5\r\n") # the second chunk is announced, not sent
    response = client.read
    assert_equal 413, response.status
    assert client.closed?
  end

  # One byte a chunk costs 6 bytes; somewhere the server must stop, but not for a few.
  def test_7_1_a_thousand_chunks_of_one_byte_are_fine
    assert_equal summary("x" * 1_000),
                 ask(serve(DIGEST),
                     request("POST", "/", "Transfer-Encoding" => "chunked") + chunked(*["x"] * 1_000)).body
  end

  def test_7_1_chunks_of_one_byte_without_end_are_refused
    client = connect(serve(DIGEST))
    client.write(request("POST", "/", "Transfer-Encoding" => "chunked"))
    client.write_what_goes("1\r\nx\r\n" * 200_000)
    assert_includes 400..499, client.read.status
    assert client.closed?
  end

  # The server asks for the body, and answers when it has it.
  def test_rfc9110_10_1_1_expect_continue
    client = connect(serve(DIGEST))
    client.write(request("POST", "/", "Expect" => "100-continue", "Content-Length" => "5"))
    assert_equal 100, client.read_interim.status
    assert_equal summary("hello"), client.call("hello").body
    assert client.silent?(0.01)
  end

  def test_rfc9110_10_1_1_expect_continue_with_chunks
    client = connect(serve(DIGEST))
    client.write(request("POST", "/", "Expect" => "100-Continue", "Transfer-Encoding" => "chunked"))
    assert_equal 100, client.read_interim.status
    assert_equal summary("onetwo"), client.call(chunked("one", "two")).body
  end

  # RFC 9110 10.1.1: it may be left out when the body is there already, and comes at most once.
  def test_rfc9110_10_1_1_expect_continue_with_the_body_at_once
    client = connect(serve(DIGEST))
    response = client.call(request("POST", "/", { "Expect" => "100-continue" }, body: "hello"))
    assert_equal summary("hello"), response.body
    assert_operator response.interim.size, :<=, 1
    assert client.silent?(0.01)
  end

  def test_rfc9110_10_1_1_no_100_without_a_body
    client = connect(serve)
    response = client.call(request("GET", "/", "Expect" => "100-continue"))
    assert_equal [200, []], [response.status, response.interim]
  end

  # RFC 9110 15.2: a 1.0 client does not know interim responses.
  def test_rfc9110_10_1_1_no_100_for_1_0
    client = connect(serve(DIGEST))
    client.write(request("POST", "/", { "Expect" => "100-continue", "Content-Length" => "5" }, version: "1.0"))
    assert client.silent?(0.1)
    response = client.call("hello")
    assert_equal [summary("hello"), []], [response.body, response.interim]
  end

  # What follows such a response may be the body or the next request: nobody can tell.
  def test_rfc9110_10_1_1_a_final_response_instead_of_100_closes
    client = connect(serve(->(_env) { [403, { "content-type" => "text/plain" }, ["no"]] }, **STREAMED))
    client.write(request("POST", "/", "Expect" => "100-continue", "Content-Length" => "5"))
    response = client.read
    assert_equal 403, response.status
    if response.interim.empty?
      assert response.close?
      assert client.closed?
    end
  end

  # What it reads behind the head can only be asked for before.
  def test_rfc9110_10_1_1_expect_continue_with_a_body_that_is_read_by_each
    client = connect(serve(->(env) { [200, { "content-type" => "text/plain" }, env["rack.input"]] }, lint: false))
    client.write(request("POST", "/", "Expect" => "100-continue", "Content-Length" => "5"))
    assert_equal 100, client.read_interim.status
    assert_equal "hello", client.call("hello").body
  end

  # A streaming body may read, but not where there is no content to be streamed.
  def test_rfc9110_10_1_1_no_100_for_a_streaming_body_that_is_not_called
    app = ->(env) { [env["PATH_INFO"][1..].to_i, {}, lambda(&:close)] }
    [["HEAD", "/200"], %w[POST /204], %w[POST /205]].each do |verb, path|
      client = connect(serve(app, lint: false, **STREAMED))
      client.write(request(verb, path, "Expect" => "100-continue", "Content-Length" => "5"))
      response = client.read(head: verb == "HEAD")
      assert_equal [path[1..].to_i, [], true], [response.status, response.interim, response.close?]
    end
  end

  def test_rfc9110_10_1_1_max_body_size_comes_before_100
    client = connect(serve(DIGEST, max_body_size: 1_000))
    client.write(request("POST", "/", "Content-Length" => "1001", "Expect" => "100-continue"))
    response = client.read
    assert_equal [413, []], [response.status, response.interim]
  end

  private

  def with_tmpdir(dir)
    before = ENV.fetch("TMPDIR", nil)
    ENV["TMPDIR"] = dir
    yield
  ensure
    ENV["TMPDIR"] = before
  end
end
