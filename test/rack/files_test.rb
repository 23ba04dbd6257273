# frozen_string_literal: true

# also: modes tls sanitized portable

require "fileutils"
require "tempfile"
require "test_helper"
require "time"
require "support/server_case"

# Bodies that are files: Rack's to_path, Rack::Files, Rack::Static and Rack::Sendfile. Whatever becomes of
# the file, the client gets its bytes or sees that they are not all there (docs/static_files.md).
class RackFilesTest < Minitest::Test
  include ServerCase

  # What an app gives for a file: `each` and `to_path` show the same bytes, as the SPEC demands.
  class FileBody
    attr_reader :closed, :enumerated

    def initialize(path, pieces = nil)
      @path = path
      @pieces = pieces
      @closed = 0
      @enumerated = 0
    end

    def to_path = @path

    def each(&block)
      @enumerated += 1
      (@pieces || [File.binread(@path)]).each(&block)
    end

    def close = @closed += 1
  end

  def setup
    super
    @dir = Dir.mktmpdir("abaca-files")
  end

  def teardown
    super
  ensure
    FileUtils.remove_entry(@dir)
  end

  # Writes a file; returns its path.
  def file(name, content)
    File.join(@dir, name).tap { |path| File.binwrite(path, content) }
  end

  # Serves one body. status, headers: of the triplet.
  def give(body, status: 200, headers: {}, **options)
    serve(lint: false, **options) { [status, { "content-type" => "text/plain" }.merge(headers), body] }
  end

  def assert_closed_once(body)
    assert eventually { body.closed.positive? }, "never closed"
    assert_equal 1, body.closed
  end

  # --- to_path ---

  def test_a_file_is_sent_with_its_length_and_not_enumerated
    content = Random.new(5).bytes(300_000)
    body = FileBody.new(file("a", content))
    response = ask(give(body))
    assert_equal [200, :length, content], [response.status, response.framing, response.body]
    assert_equal 0, body.enumerated
    assert_closed_once(body)
  end

  def test_http_1_0
    body = FileBody.new(file("a", "bytes"))
    response = ask(give(body), request("GET", version: "1.0"))
    assert_equal [:length, "bytes", true], [response.framing, response.body, response.close?]
  end

  def test_head_304_and_204_send_nothing_of_the_file
    path = file("a", "bytes")
    [[request("HEAD"), 200, "5"], [GET, 304, nil], [GET, 204, nil]].each do |bytes, status, length|
      body = FileBody.new(path)
      client = connect(give(body, status:))
      response = client.call(bytes)
      assert_equal [status, length, ""], [response.status, response["content-length"], response.body]
      assert_equal status, client.call(bytes).status, "the connection is kept"
      assert eventually { body.closed == 2 }
    end
  end

  def test_an_empty_file
    response = ask(give(FileBody.new(file("a", ""))))
    assert_equal [200, "0", ""], [response.status, response["content-length"], response.body]
  end

  # Rack leaves to the server whether it uses to_path. With chunks of the app's own it cannot.
  def test_a_file_with_the_apps_own_chunks
    body = FileBody.new(file("a", "bytes"), ["5\r\nbytes\r\n", "0\r\n\r\n"])
    client = connect(give(body, headers: { "transfer-encoding" => "chunked" }))
    assert_equal "bytes", client.call(GET).body
    assert_equal "bytes", client.call(GET).body
  end

  # The part that a 206 carries is what the body yields; the file behind to_path is the whole.
  def test_a_part_of_a_file_is_what_the_body_yields
    body = FileBody.new(file("a", "0123456789"), %w[345])
    response = ask(give(body, status: 206, headers: { "content-range" => "bytes 3-5/10", "content-length" => "3" }))
    assert_equal [206, "345"], [response.status, response.body]
  end

  def test_what_is_no_regular_file_is_enumerated
    fifo = File.join(@dir, "fifo")
    File.mkfifo(fifo)
    [fifo, @dir, "/dev/null", "/proc/self/cmdline"].each do |path|
      body = FileBody.new(path, %w[from each])
      assert_equal "fromeach", ask(give(body)).body, path
      assert_equal 1, body.enumerated
    end
  end

  # Their size is 0 whatever they contain.
  def test_a_file_of_proc
    running = serve(Rack::Files.new("/proc/self"))
    response = ask(running, request("GET", "/status"))
    assert_equal 200, response.status
    assert_match(/\AName:.*\nThreads:/m, response.body)
  rescue Wire::Malformed => e
    # Its length may have changed between Rack's two looks at it: cut off visibly.
    assert_match(/body has \d+ of \d+ bytes/, e.message)
  end

  # Then the body's `each` is asked, as the SPEC has it. It may fail when the head is out already.
  def test_files_that_cannot_be_opened
    secret = file("secret", "bytes")
    File.chmod(0, secret)
    missing = File.join(@dir, "missing")
    [missing, *(secret unless Process.uid.zero?)].each do |path|
      body = FileBody.new(path)
      running = give(body)
      client = connect(running)
      bytes = client.write(GET).drain
      refute_includes bytes, @dir
      refute bytes.end_with?("0\r\n\r\n"), "not to be taken for an empty file"
      assert running.logged?(/Errno::(ENOENT|EACCES)/)
      assert_closed_once(body)
    end
  end

  def test_to_path_that_names_nothing
    [nil, :path, "a\0b"].each do |path|
      body = FileBody.new(path, %w[from each])
      response = ask(give(body))
      assert_includes [[200, "fromeach"], [500, response.body]], [response.status, response.body], path.inspect
      assert_closed_once(body)
    end
  end

  # --- files that are not what they were ---

  def test_a_content_length_below_the_size_is_kept_to
    client = connect(give(FileBody.new(file("a", "0123456789")), headers: { "content-length" => "4" }))
    assert_equal "0123", client.call(GET).body
    assert_equal "0123", client.call(GET).body
  end

  def test_a_content_length_above_the_size_ends_the_connection
    running = give(FileBody.new(file("a", "0123456789")), headers: { "content-length" => "40" })
    client = connect(running)
    error = assert_raises(Wire::Malformed) { client.call(GET) }
    assert_equal "body has 10 of 40 bytes", error.message
    assert running.logged?(%r{shorter than its Content-Length \(GET /\)})
  end

  def test_a_file_that_grows_while_it_is_sent
    content = Random.new(7).bytes(8_000_000)
    path = file("a", content)
    client = connect(give(FileBody.new(path)), receive_buffer: 8_192)
    client.write(GET)
    client.parser.feed(client.read_some(100))
    File.open(path, "ab") { |out| out << ("more" * 1000) }
    assert_equal content, client.read.body
    assert_equal 8_004_000, client.call(GET).body.bytesize
  end

  # Less than was promised, and then the end: the client cannot take it for the whole. What the kernel
  # had queued of the part that is gone may have been zeroed, as the file's own pages are.
  def test_a_file_that_shrinks_while_it_is_sent
    content = Random.new(7).bytes(16_000_000)
    path = file("a", content)
    client = connect(give(FileBody.new(path)), receive_buffer: 8_192)
    client.write(GET)
    bytes = client.read_some(100)
    File.truncate(path, 1_000)
    bytes << client.drain
    head, body = bytes.split("\r\n\r\n", 2)
    assert_match(/^content-length: 16000000\r?$/i, head)
    assert_operator body.bytesize, :<, 16_000_000
    assert body.start_with?(content[0, 1_000])
  end

  # What is open stays whole when its name goes.
  def test_a_file_that_is_removed_while_it_is_sent
    content = Random.new(9).bytes(8_000_000)
    path = file("a", content)
    client = connect(give(FileBody.new(path)), receive_buffer: 8_192)
    client.write(GET)
    client.parser.feed(client.read_some(100))
    File.unlink(path)
    assert_equal content, client.read.body
  end

  # --- Rack's own ---

  def test_rack_files
    modified = Time.at(1_700_000_000)
    File.utime(modified, modified, file("page.txt", "0123456789"))
    client = connect(serve(Rack::Files.new(@dir)))
    assert_equal "0123456789", client.call(request("GET", "/page.txt")).body
    head = client.call(request("HEAD", "/page.txt"))
    assert_equal ["10", ""], [head["content-length"], head.body]
    assert_equal 304, client.call(request("GET", "/page.txt", "If-Modified-Since" => modified.httpdate)).status
    assert_equal 404, client.call(request("GET", "/none.txt")).status
    assert_equal "GET, HEAD, OPTIONS", client.call(request("OPTIONS", "/page.txt"))["allow"]
    assert_equal 405, client.call(request("POST", "/page.txt", body: "x")).status
  end

  def test_ranges_of_rack_files
    file("page.txt", "0123456789")
    client = connect(serve(Rack::Files.new(@dir)))
    one = client.call(request("GET", "/page.txt", "Range" => "bytes=2-4"))
    assert_equal [206, "bytes 2-4/10", "234"], [one.status, one["content-range"], one.body]
    two = client.call(request("GET", "/page.txt", "Range" => "bytes=0-1,8-9"))
    assert_equal 206, two.status
    assert_match(%r{bytes 0-1/10\r\n\r\n01\r\n.*bytes 8-9/10\r\n\r\n89\r\n}m, two.body)
    none = client.call(request("GET", "/page.txt", "Range" => "bytes=20-"))
    assert_equal [416, "bytes */10"], [none.status, none["content-range"]]
  end

  def test_rack_static
    file("page.txt", "0123456789")
    app = Rack::Static.new(HELLO, urls: ["/page.txt"], root: @dir)
    client = connect(serve(app))
    assert_equal "0123456789", client.call(request("GET", "/page.txt")).body
    assert_equal "hello\n", client.call(request("GET", "/")).body
  end

  # Without a variation Rack::Sendfile does nothing, and with one the field is for the proxy in front.
  def test_rack_sendfile
    path = file("page.txt", "0123456789")
    app = Rack::Files.new(@dir)
    ask_for = ->(*options) { ask(serve(Rack::Sendfile.new(app, *options), lint: false), request("GET", "/page.txt")) }
    assert_equal "0123456789", ask_for.call.body
    response = ask_for.call("X-Sendfile")
    assert_equal [path, "0", ""], [response["x-sendfile"], response["content-length"], response.body]
    response = ask_for.call("X-Accel-Redirect", [[@dir, "/files"]])
    assert_equal ["/files/page.txt", "0"], [response["x-accel-redirect"], response["content-length"]]
  end

  # A client may not choose what a server behind a proxy is asked to do.
  def test_x_sendfile_type_of_a_client_changes_nothing
    app = Rack::Sendfile.new(Rack::Files.new(@dir))
    file("page.txt", "0123456789")
    response = ask(serve(app), request("GET", "/page.txt", "X-Sendfile-Type" => "X-Sendfile",
                                                           "X-Accel-Mapping" => "/=/"))
    assert_equal ["0123456789", nil], [response.body, response["x-sendfile"]]
  end

  # --- many and large ---

  def test_aborted_downloads_leave_no_descriptor
    path = file("a", "x" * 4_000_000)
    running = give(FileBody.new(path))
    200.times do |nth|
      client = connect(running, receive_buffer: 4_096)
      client.write(GET)
      client.read_some(100) if nth.odd?
      client.reset
    end
    assert eventually { ServerCase.descriptors.values.none?(path) }, "the file is still open"
    assert_equal 4_000_000, ask(running).body.bytesize
  end
end
