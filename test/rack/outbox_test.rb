# frozen_string_literal: true

# also: modes sanitized portable rubies

require "tempfile"
require "test_helper"
require "support/server_case"

# Bodies that are an Abaca::Outbox: complete ones, and those that a block fills while they are sent.
class RackOutboxTest < Minitest::Test
  include ServerCase

  Outbox = Abaca::Outbox

  # A server whose responses' bodies the block makes.
  def giving(status: 200, headers: TYPE, lint: false, **options)
    serve(lint: lint, **options) { |env| [status, headers.dup, yield(env)] }
  end

  # A server whose responses' bodies are outboxes that the block fills.
  def filling(outbox: {}, **options, &block)
    giving(**options) { Outbox.new(**outbox, &block) }
  end

  # --- without a block ---

  def test_what_was_written_is_the_content
    running = giving { Outbox.new << "abc" << "def" }
    client = connect(running)
    2.times do
      response = client.call(GET)
      assert_equal ["abcdef", "6", nil], [response.body, response["content-length"], response["transfer-encoding"]]
    end
  end

  def test_nothing_was_written
    running = giving { Outbox.new }
    client = connect(running)
    2.times { assert_equal ["", "0"], client.call(GET).then { |response| [response.body, response["content-length"]] } }
  end

  # Copies, borrowed strings and files of any size, in keep-alive and in pipelines.
  def test_all_kinds_of_slices
    Tempfile.create do |file|
      file.binmode
      file.write(Random.new(5).bytes(200_000))
      file.flush
      text = Random.new(6).bytes(500_000).freeze
      expected = "head".b + text + File.binread(file.path, 150_000, 7) + ("x" * 5000).b + text[9, 600] + "tail".b
      running = giving do
        out = Outbox.new << "head"
        out.schedule(text)
        File.open(file.path) { |io| out.schedule_file(io.dup, 7, 150_000) }
        out << ("x" * 5000)
        out.schedule(text, 9, 600)
        out << "tail"
      end
      client = connect(running)
      3.times { assert_equal expected, client.call(GET).body }
      client.write(GET * 5)
      5.times { assert_equal expected, client.read.body }
    end
  end

  def test_the_same_for_http_1_0
    running = giving { Outbox.new << "abc" }
    response = ask(running, request("GET", version: "1.0"))
    assert_equal %w[abc 3], [response.body, response["content-length"]]
  end

  def test_a_length_of_the_apps_own
    assert_equal "abc", ask(giving(headers: TYPE.merge("content-length" => "3")) { Outbox.new << "abc" }).body
    running = giving(headers: TYPE.merge("content-length" => "3")) do
      (Outbox.new << "ab").tap do |o|
        o << ("x" * 9000)
      end
    end
    assert_equal "abx", ask(running).body
    assert running.logged?(%r{longer than its Content-Length \(GET /\)})
    running = giving(headers: TYPE.merge("content-length" => "5")) { Outbox.new << "ab" }
    client = connect(running).write(GET)
    assert_includes client.read_until("\r\n\r\nab"), "Content-Length: 5"
    assert client.closed?
    assert running.logged?(%r{shorter than its Content-Length \(GET /\)})
  end

  def test_the_end_is_told_to_the_outbox
    seen = Queue.new
    boxes = Queue.new
    running = giving do
      out = Outbox.new << "abc"
      out.flush { |reason| seen << [reason, out.pending_bytes] }
      boxes << out
      out
    end
    assert_equal "abc", ask(running).body
    assert_equal [:shift, 0], seen.pop
    out = boxes.pop
    assert eventually { out.closed? }
    assert_raises(IOError) { out << "too late" }
  end

  def test_responses_without_content
    seen = Queue.new
    box = proc do
      out = Outbox.new << "abc"
      out.flush { |reason| seen << [reason, out.pending_bytes] }
      out
    end
    client = connect(giving(&box))
    response = client.call(request("HEAD"))
    assert_equal ["", "3"], [response.body, response["content-length"]]
    assert_equal [:drain, 0], seen.pop
    [204, 304].each do |status|
      client = connect(giving(status: status, headers: {}, &box))
      2.times { assert_equal "", client.call(GET).body }
      2.times { assert_equal [:drain, 0], seen.pop }
    end
  end

  # --- with a block ---

  def test_a_block_fills_it
    running = filling { |out| 3.times { |i| out << "line #{i}\n" } }
    client = connect(running)
    2.times do
      response = client.call(GET)
      assert_equal ["line 0\nline 1\nline 2\n", "chunked"], [response.body, response["transfer-encoding"]]
    end
    response = ask(running, request("GET", version: "1.0"))
    assert_equal ["line 0\nline 1\nline 2\n", nil], [response.body, response["transfer-encoding"]]
  end

  def test_a_block_and_a_length
    response = ask(filling(headers: TYPE.merge("content-length" => "300000")) { |out| 300_000.times { out << "x" } })
    assert_equal [300_000, nil], [response.body.size, response["transfer-encoding"]]
    running = filling(headers: TYPE.merge("content-length" => "100000")) { |out| 300_000.times { out << "x" } }
    assert_equal 100_000, ask(running).body.size
    assert running.logged?(%r{longer than its Content-Length \(GET /\)})
  end

  def test_a_block_that_writes_nothing
    client = connect(filling { nil })
    2.times { assert_equal "", client.call(GET).body }
  end

  def test_a_block_that_closes
    seen = Queue.new
    running = filling do |out|
      out << "all"
      out.close
      out << "more"
    rescue IOError => e
      seen << e.class
    end
    assert_equal "all", ask(running).body
    assert_equal IOError, seen.pop
  end

  def test_the_block_is_not_called_without_content
    running = filling { flunk }
    client = connect(running)
    2.times { assert_equal "", client.call(request("HEAD")).body }
    assert_equal "", ask(filling(status: 204, headers: {}) { flunk }).body
    refute_match(/flunk/i, running.log)
  end

  def test_megabytes_in_small_pieces
    random = Random.new(8)
    text = random.bytes(3_000_000).freeze
    running = filling(outbox: { buffer: 1000, high_watermark: 20_000 }) do |out|
      at = 0
      sizes = Random.new(9)
      while at < text.bytesize
        size = [sizes.rand(3000), text.bytesize - at].min
        sizes.rand(2).zero? ? out.write(text, at, size) : out.schedule(text, at, size)
        at += size
      end
    end
    client = connect(running)
    2.times { assert_equal text, client.call(GET).body }
  end

  def test_reading_the_request_in_the_block
    running = giving do |env|
      Outbox.new do |out|
        while (line = env["rack.input"].gets)
          out << line.upcase
        end
      end
    end
    body = "line of text\n" * 20_000
    assert_equal body.upcase, ask(running, request("POST", body: body)).body
  end

  # --- when it leaves ---

  def test_flush_sends
    gate = Queue.new
    seen = Queue.new
    running = filling do |out|
      out << "first"
      out.flush { |reason| seen << reason }
      gate.pop
      out << "second"
      out.flush
      gate.pop
    end
    client = connect(running).write(GET)
    assert client.read_until("first")
    assert_equal :shift, seen.pop
    gate << 1
    assert client.read_until("second")
    gate << 1
    assert client.read_until("0\r\n\r\n")
  end

  # What waits for more to go with it goes all the same, though no fiber parks and nothing is pending here.
  def test_flush_sends_though_the_app_computes_on
    got = false
    sent = nil
    running = filling do |out|
      %w[one two three].each { |piece| (out << piece).flush }
      out.flush
      sent = running.server.stats[:sent]
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
      Thread.pass until got || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    end
    client = connect(running).write(GET)
    bytes = client.read_until("three\r\n")
    got = true
    assert client.read_until("0\r\n\r\n")
    assert_equal bytes.bytesize, sent, "sent when flush returned"
  end

  # A client that reads nothing: the block stops soon, and goes on when it reads.
  def test_back_pressure
    written = 0
    most = 0
    line = ("x" * 99) + "\n"
    running = filling(max_pending_output: 65_536) do |out|
      200_000.times do
        out << line
        written += line.bytesize
        most = [most, out.pending_bytes].max
      end
    end
    client = connect(running).write(GET)
    assert eventually { written.positive? }
    assert(eventually { written.tap { sleep 0.05 } == written })
    assert_operator written, :<, 15_000_000
    assert_equal 200, ask(running, request("HEAD")).status, "others are served meanwhile"
    assert_equal 20_000_000, client.read.body.bytesize
    assert_operator most, :<=, 65_536 + 100
  end

  def test_wait_writable_hands_over
    running = filling(outbox: { high_watermark: 1000 }) do |out|
      10.times { out.wait_writable && out.write("x" * 999) && out.write("yz") }
    end
    assert_equal 10_010, ask(running).body.size
  end

  def test_another_fiber_and_another_thread_write
    threads = Queue.new
    running = filling(outbox: { high_watermark: 1000 }) do |out|
      done = Queue.new
      write = ->(letter) { 500.times { out << (letter * 100) } && (done << 1) }
      ServerCase.beside { write.call("f") }
      threads << Thread.new { write.call("t") }
      write.call("m")
      3.times { done.pop }
    end
    body = ask(running).body
    assert_equal({ "f" => 50_000, "t" => 50_000, "m" => 50_000 }, body.chars.tally)
    threads.pop.join
  end

  # --- what goes wrong ---

  def test_the_client_goes
    seen = Queue.new
    running = filling(max_pending_output: 65_536) do |out|
      loop { out << ("x" * 10_000) }
    rescue Abaca::PeerError => e
      seen << [e.class, out.closed?]
      raise
    ensure
      seen << :ensured
    end
    client = connect(running).write(GET)
    client.read_some
    client.reset
    assert_equal [Abaca::PeerError, false], seen.pop
    assert_equal :ensured, seen.pop
    assert_equal 200, ask(running, request("HEAD")).status
    refute_match(/PeerError/, running.log)
  end

  def test_the_client_goes_while_others_write
    seen = Queue.new
    threads = Queue.new
    writer = lambda do |out|
      loop { out << ("x" * 100_000) }
    rescue Abaca::PeerError, IOError => e
      seen << e.class
    end
    running = filling do |out|
      ServerCase.beside { writer.call(out) }
      threads << Thread.new { writer.call(out) }
      writer.call(out)
    end
    client = connect(running).write(GET)
    client.read_some
    sockets_filled(running)
    client.reset
    3.times { assert_includes [Abaca::PeerError, IOError], seen.pop }
    threads.pop.join
  end

  # It is called when a fiber beside the request has written, whose client does not read, and waits until the request is
  # over and another one runs: that fiber does not wait for the other one's client.
  def test_a_flush_block_that_outlives_its_request
    asked = Queue.new
    gate = Queue.new
    outcome = Queue.new
    write = lambda do |out|
      ServerCase.beside do
        out.write("x" * 4_000_000)
        outcome << "no error"
      rescue IOError => e
        outcome << e.message
      end
      asked.pop
    end
    running = serve(lint: false) do |env|
      next [200, TYPE.dup, [(gate << true) && outcome.pop]] unless env["PATH_INFO"] == "/first"

      out = Outbox.new(&write) << "first"
      [200, TYPE.dup, out.flush { (asked << true) && gate.pop }]
    end
    first = connect(running, receive_buffer: 4096).write(request("GET", "/first"))
    assert eventually { running.server.stats[:in_app].zero? && running.server.stats[:requests] == 1 }
    assert_equal "the request is over", ask(running).body[/\A[^:]*/]
    assert_equal 4_000_005, first.read.body.bytesize
  end

  def test_a_block_that_raises
    running = filling { |out| (out << "begun") && out.flush && raise("secret") }
    client = connect(running).write(GET)
    bytes = client.read_until("begun")
    assert client.closed?
    refute_includes bytes, "0\r\n\r\n"
    assert running.logged?(/secret/)
    assert_equal 200, ask(running, request("HEAD")).status
  end

  def test_a_flush_block_that_raises
    running = giving { (Outbox.new << "abc").flush { raise "in the flush block" } }
    client = connect(running).write(GET)
    assert client.read_until("abc")
    assert client.closed?
    assert running.logged?(/in the flush block/)
  end

  def test_a_file_that_was_closed
    running = giving do
      out = Outbox.new << "abc"
      File.open(__FILE__) { |file| out.schedule_file(file) }
      out
    end
    assert_equal 500, ask(running).status
    assert running.logged?(/closed stream/)
    running = filling { |out| File.open(__FILE__) { |file| out.schedule_file(file) && out.flush } }
    assert_equal File.binread(__FILE__), ask(running).body, "the server has a descriptor of its own"
  end

  # Runs the block while the process can open nothing.
  def without_descriptors
    limits = Process.getrlimit(:NOFILE)
    lowest = IO.sysopen(File::NULL).tap { |fd| IO.for_fd(fd).close }
    Process.setrlimit(:NOFILE, lowest, limits.last)
    yield
  ensure
    Process.setrlimit(:NOFILE, *limits)
  end

  def test_a_file_when_there_are_no_descriptors
    seen = Queue.new
    running = filling do |out|
      File.open(__FILE__) do |file|
        out << "before"
        out.schedule_file(file)
        without_descriptors { out.flush }
      rescue SystemCallError => e
        seen << [e.class, out.pending_bytes == file.size + 6]
        raise
      end
    end
    client = connect(running).write(GET)
    assert_equal [Errno::EMFILE, true], seen.pop
    refute_includes client.drain, "before"
    assert_equal 200, ask(running, request("HEAD")).status
  end

  # What cannot be sent whole is not begun: the app goes on when there are descriptors again.
  def test_an_app_that_rescues_the_want_of_descriptors
    running = filling do |out|
      File.open(__FILE__) do |file|
        out << "before"
        out.schedule_file(file)
        begin
          without_descriptors { out.flush }
        rescue Errno::EMFILE
          out << "after"
        end
        out.flush
      end
    end
    client = connect(running)
    2.times { assert_equal "before#{File.binread(__FILE__)}after", client.call(GET).body }
  end

  # Who looks at what is pending, inside the block, may write as much as he likes meanwhile.
  def test_a_block_that_writes_while_it_takes
    running = filling do |out|
      out << "abc"
      out.serialize do
        out << ("q" * 100_000)
        1
      end
      out << "d"
    end
    assert_equal "bc#{'q' * 100_000}d", ask(running).body
  end

  def test_an_outbox_that_somebody_empties
    out = Outbox.new << "abc"
    gate = Queue.new
    target = Class.new { define_method(:write) { |_text| gate.pop } }.new
    thread = Thread.new { out.write_to(target) }
    Thread.pass until thread.stop?
    assert_equal 500, ask(giving { out }).status
    gate << 1
    thread.join
  end

  def test_one_outbox_for_two_requests
    out = Outbox.new << "once"
    client = connect(giving { out })
    assert_equal ["once", ""], Array.new(2) { client.call(GET).body }
  end

  # --- as any other body ---

  def test_through_middleware
    skip "Rack 2's Lint has its own idea of each" if Rack.release < "3"
    running = serve(lint: true) do |env|
      out = env["abaca.outbox"].new(high_watermark: 100) { |o| 50.times { |i| o << "#{i}\n" } }
      [200, TYPE.dup, env["PATH_INFO"] == "/proxy" ? Rack::BodyProxy.new(out) { nil } : out]
    end
    expected = (0...50).map { |i| "#{i}\n" }.join
    %w[/ /proxy].each { |path| assert_equal expected, ask(running, request("GET", path)).body }
  end

  def test_each
    out = Outbox.new << "copied"
    out.schedule("l" * 600)
    pieces = []
    assert_same out, out.each { |piece| pieces << piece }
    assert_equal [["copied", "l" * 600], false, 0], [pieces, out.closed?, out.pending_bytes]
    out = Outbox.new(high_watermark: 10) { |o| 5.times { |i| o << (i.to_s * 6) } }
    assert_equal %w[000000111111 222222333333 444444], out.each.to_a
    assert_predicate out, :closed?
    assert_empty out.each.to_a
  end

  def test_each_that_is_left
    out = Outbox.new(high_watermark: 3) { |o| 5.times { o << "abcd" } }
    assert_equal "abcd", out.each.first
    assert_equal "abcd", out.to_s, "what was not taken to the end"
    out = Outbox.new { raise "in the block" }
    assert_raises(RuntimeError) { out.each { flunk } }
  end

  def test_each_reentrantly
    out = Outbox.new(high_watermark: 3) { |o| o << "abcd" << "efgh" }
    got = []
    out.each do |piece|
      got << piece
      out << "more" if got.size == 1
      assert_raises(Outbox::Busy) { out.shift(1) }
      assert_raises(Outbox::Busy) { out.each { flunk } }
    end
    assert_equal "abcdmoreefgh", got.join
  end

  def test_trailers
    headers = TYPE.merge("abaca.trailers" => -> { { "x-sum" => "42" } })
    client = connect(giving(headers: headers) { Outbox.new << "abc" }).write(GET)
    assert_match(/3\r\nabc\r\n0\r\nx-sum: 42\r\n\r\n\z/, client.read_until("x-sum: 42\r\n\r\n"))
  end

  def test_the_env_names_the_class_and_costs_nothing
    seen = []
    running = serve do |env|
      seen << env["abaca.outbox"]
      [200, TYPE.dup, ["x"]]
    end
    2.times { ask(running) }
    assert_equal [Outbox, Outbox], seen
  end

  # A body that is sent as its app gave it, here a file.
  FileBody = Struct.new(:to_path) do
    def each = yield(File.binread(to_path))
  end

  # What was sent goes back before the next request begins, also where many follow one another in a turn. For strings it
  # is the same, but only the collector knows.
  def test_a_file_is_closed_before_the_next_request
    Tempfile.create do |file|
      file.write("x" * 20_000)
      file.close
      [{}, { stall_after: 0 }].each { |options| assert_closed_between(file.path, options) }
    end
  end

  # How often the file was open when each of a row of requests began.
  def assert_closed_between(path, options)
    open = []
    sent = false
    running = serve(lint: false, max_pending_output: 1, **options) do # each is sent at once
      Thread.pass until sent
      open << ServerCase.descriptors.values.count(path)
      [200, TYPE.dup, FileBody.new(path)]
    end
    clients = Array.new(12) { connect(running).write(GET) }
    sent = true
    clients.each { |client| assert_equal 20_000, client.read.body.bytesize }
    assert_equal [0], open.uniq, open unless ServerCase.threads? # where many are sent at the same time
  end
end
