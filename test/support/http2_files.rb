# frozen_string_literal: true

require "tmpdir"
require_relative "http2_client"

# Files over HTTP/2, whatever carries it. Includers say `client_of(app, before:)`, which starts a server around the app
# and returns an Http2Client that has sent these words.
module Http2Files
  # Whatever the server has to send may come.
  WIDE = "preface settings 0 - 0001 00000000 0004 7fffffff window_update 0 - 7fff0000"
  # A window of 5,000 bytes for each stream.
  NARROW = "preface settings 0 - 0001 00000000 0004 00001388 window_update 0 - 7fff0000"
  STEP = "00001388"
  GET = "headers $ es,eh :get"
  HEAD = "headers $ es,eh :head"
  CANCEL = "00000008"

  # A body that is a file and nothing else.
  Whole = Struct.new(:to_path) do
    def each = raise("not to be enumerated")
  end

  def setup
    super
    @directory = Dir.mktmpdir("abaca-files")
  end

  def teardown
    super
  ensure
    FileUtils.remove_entry(@directory) if @directory
  end

  # Makes a file of so many bytes; returns its path and its content.
  def make(size)
    content = Random.new(size).bytes(size)
    path = File.join(@directory, size.to_s)
    File.binwrite(path, content)
    [path, content]
  end

  # An app that gives this file.
  def giving(path)
    ->(_env) { [200, { "content-type" => "text/plain", "content-length" => File.size(path).to_s }, Whole.new(path)] }
  end

  def begin_stream(client, stream, words = GET) = client.send_words(words, stream: stream)

  def finish_stream(client, stream)
    client.read_until { client.complete?(stream) }
    client.body(stream)
  end

  def test_whole_files
    [1, 4096, 8191, 8192, 16_384, 65_536, 300_000, 1_000_000].each do |size|
      path, content = make(size)
      client = client_of(giving(path), before: WIDE)
      2.times do |nth|
        begin_stream(client, (2 * nth) + 1)
        assert finish_stream(client, (2 * nth) + 1) == content, "#{size} bytes"
      end
      assert_nil client.goaway
    end
  end

  def test_many_files_at_once
    path, content = make(200_000)
    client = client_of(giving(path), before: WIDE)
    streams = Array.new(20) { |nth| (2 * nth) + 1 }
    streams.each { |stream| begin_stream(client, stream) }
    client.read_until { streams.all? { |stream| client.complete?(stream) } }
    assert(streams.all? { |stream| client.body(stream) == content })
  end

  def test_the_head_alone
    path, = make(100_000)
    client = client_of(giving(path), before: WIDE)
    begin_stream(client, 1, HEAD)
    assert_empty finish_stream(client, 1)
    assert_equal 200, client.status(1)
    assert_empty client.of("data", 1)
  end

  # Each frame has as much as there is room for.
  def test_narrow_windows
    path, content = make(1_000_000)
    client = client_of(giving(path), before: NARROW)
    begin_stream(client, 1)
    (content.bytesize / 5000).times do |nth|
      client.read_until { client.body(1).bytesize >= (nth + 1) * 5000 }
      client.send_words("window_update 1 - #{STEP}")
    end
    assert finish_stream(client, 1) == content
  end

  # What has begun comes, the rest does not, and the connection is as good as before.
  def test_a_stream_is_reset_amid
    path, content = make(1_000_000)
    client = client_of(giving(path), before: WIDE)
    begin_stream(client, 1)
    client.read_until { client.of("data", 1).any? }
    client.send_words("rst_stream 1 - #{CANCEL}")
    begin_stream(client, 3)
    assert finish_stream(client, 3) == content
    assert_nil client.goaway
  end

  # Their descriptors are given back: that is looked at behind each test.
  def test_clients_that_leave_amid
    path, = make(1_000_000)
    3.times do
      client = client_of(giving(path), before: WIDE)
      5.times { |nth| begin_stream(client, (2 * nth) + 1) }
      client.read_until { client.of("data", 1).any? }
      client.close
    end
    assert(eventually { Dir.children("/proc/self/fd").none? { |fd| points_to?(fd, path) } })
  end

  # What was promised cannot come.
  def test_a_file_that_shrinks_amid
    path, = make(1_000_000)
    client = client_of(giving(path), before: WIDE)
    begin_stream(client, 1)
    sockets_filled(@running.last)
    File.truncate(path, 0)
    client.read_until { client.ended? || client.reset(1) }
    refute client.complete?(1)
    assert_operator client.body(1).bytesize, :<, 1_000_000
  end

  private

  def points_to?(descriptor, path)
    File.readlink("/proc/self/fd/#{descriptor}") == path
  rescue SystemCallError
    false
  end
end
