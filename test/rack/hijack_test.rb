# frozen_string_literal: true

# also: modes tls sanitized portable rubies

require "delegate"
require "test_helper"
require "support/server_case"
require "support/takeover_ends"

# Connections that the app takes over: full and partial hijack (Rack SPEC, "Hijacking"), and the
# upgrade to another protocol (Rack SPEC, "rack.protocol"; RFC 9110 7.8).
class RackHijackTest < Minitest::Test
  include ServerCase
  include TakeoverEnds

  UPGRADE = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo, chat/2\r\n\r\n"
  IGNORED = [200, { "content-type" => "text/plain" }, ["ignored"]].freeze

  # An app that takes the socket, in a fiber of the request's.
  def takes(lint: true, **options, &block)
    serve(lint: lint, **options) do |env|
      io = env["rack.hijack"].call
      begin
        block.call(io, env)
      ensure
        io.close unless io.closed?
      end
      IGNORED.dup
    end
  end

  # --- full hijack ---

  def test_the_env_offers_it
    running = serve { |env| [200, TYPE.dup, [[env["rack.hijack?"], env["rack.hijack"].respond_to?(:call)].inspect]] }
    assert_equal "[true, true]", ask(running).body
  end

  def test_the_app_has_the_socket_and_its_response_is_ignored
    kinds = Queue.new
    running = takes do |io|
      kinds << io.class
      io.write("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 4\r\n\r\n")
      io << "mine"
      io.flush
    end
    client = connect(running)
    response = client.call(GET)
    assert_equal "mine", response.body
    assert client.closed?
    assert_equal ServerCase::TLS ? UNIXSocket : TCPSocket, kinds.pop
  end

  def test_it_is_in_rack_hijack_io_and_the_same_each_time
    seen = Queue.new
    running = takes(lint: false) { |io, env| seen << [io, env["rack.hijack_io"], env["rack.hijack"].call] }
    connect(running).write(GET).closed?
    assert_equal 1, seen.pop.uniq(&:object_id).size
  end

  # What the engine has read beyond the head belongs to the app.
  def test_bytes_that_came_with_the_head
    running = takes { |io| io.write(io.read(5).upcase, io.gets, io.readpartial(100)) }
    client = connect(running).write("#{GET}abcdeline\nrest")
    assert_equal "ABCDEline\nrest", client.drain
  end

  def test_bytes_that_come_later
    running = takes { |io| io.write(io.readpartial(10).reverse) until io.wait_readable(1) && io.eof? }
    client = connect(running).write(GET)
    %w[abc defgh].each { |word| assert_equal word.reverse, client.write(word).read_some }
    client.half_close
    assert_nil client.read_some
  end

  # A socket with bytes of its own is readable at once, whatever the kernel says.
  def test_nonblocking_reads_and_select_know_what_was_read_ahead
    running = takes do |io|
      ready = io.wait_readable(0) && IO.select([io], nil, nil, 1) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler -- an app may
      io.write(ready ? "ready " : "late ", io.read_nonblock(3))
    end
    assert_equal "ready abc", connect(running).write("#{GET}abc").drain
  end

  def test_responses_before_it_come_first
    body = "z" * 3_000_000
    running = serve(lint: false) do |env|
      next [200, TYPE.dup, [body]] if env["PATH_INFO"] == "/big"

      env["rack.hijack"].call.then { |io| io.write("taken") && io.close }
      IGNORED
    end
    client = connect(running).write((request("GET", "/big") * 2) + GET)
    found = client.drain
    assert_equal 2 * body.bytesize, found.count("z")
    assert found.end_with?("ztaken")
  end

  def test_waiting_on_it_parks_the_fiber
    running = serve(lint: false) do |env|
      next [200, TYPE.dup, ["free"]] if env["PATH_INFO"] == "/other"

      io = env["rack.hijack"].call
      io.write(io.gets)
      io.close
      IGNORED
    end
    client = connect(running).write(GET)
    assert_equal "free", ask(running, request("GET", "/other")).body
    assert_equal "line\n", client.write("line\n").drain
  end

  def test_a_thread_of_the_apps_may_have_it
    threads = Queue.new
    running = serve do |env|
      io = env["rack.hijack"].call
      threads << Thread.new { io.write(io.gets) && io.close }
      IGNORED.dup
    end
    assert_equal "line\n", connect(running).write("#{GET}line\n").drain
    threads.pop.join
  end

  # A server one of whose connections the app has taken over, a client there, and the app's socket.
  def taken_over(**options)
    sockets = Queue.new
    running = serve(**options) do |env|
      sockets << env["rack.hijack"].call
      IGNORED.dup
    end
    client = connect(running).write(GET)
    io = sockets.pop
    assert eventually { running.server.stats[:connections].zero? && running.server.stats[:in_app].zero? }
    [running, client, io]
  end

  def test_it_counts_until_it_is_closed
    running, client, io = taken_over
    assert_equal [1, 1], running.server.stats.values_at(:detached, :taken_over)
    refute eventually(within: 1.2) { running.server.stats[:taken_over].zero? }
    io.close
    assert_nil client.read_some
    assert eventually { running.server.stats[:taken_over].zero? }
    assert_equal 1, running.server.stats[:detached]
  end

  # What is open under the number of a socket that the app has closed is none of the server's business.
  def test_another_socket_with_the_same_number
    running, client, io = taken_over(force_shutdown_after: 600)
    ours, theirs = UNIXSocket.pair
    IO.for_fd(io.fileno, autoclose: false).reopen(ours)
    assert_nil client.read_some
    running.stop
    theirs.write("still open")
    assert_equal "still open", io.readpartial(20)
  ensure
    [io, ours, theirs].compact.each(&:close)
  end

  def test_no_deadline_of_the_servers_ends_it
    running = takes(header_timeout: 1, persistent_timeout: 1, write_timeout: 1) { |io| io.write(io.gets) }
    client = connect(running).write(GET)
    assert client.silent?(1.3)
    assert_equal "late\n", client.write("late\n").drain
  end

  def test_dead_peers_are_noticed_all_the_same
    skip "over TLS the app has one end of a pair" if ServerCase::TLS
    need_platform(:user_timeout)
    _running, _client, io = taken_over(dead_peer_timeout: 40, write_timeout: 30)
    assert_equal 40_000, io.getsockopt(:TCP, Socket::TCP_USER_TIMEOUT).int
  ensure
    io&.close
  end

  def test_an_app_that_raises_afterwards
    running = serve(lint: false) do |env|
      env["rack.hijack"].call.close
      raise "secret"
    end
    client = connect(running).write(GET)
    assert_nil client.read_some
    assert running.logged?(/secret/)
  end

  # Puma's "asynchronous" response, and what is no response at all.
  def test_what_the_app_returns_does_not_matter
    closed = Queue.new
    body = Rack::BodyProxy.new(["x"]) { closed << true }
    [nil, [-1, {}, []], [200, { "bad" => 1 }, body], "x"].each do |result|
      running = serve(lint: false) do |env|
        env["rack.hijack"].call.close
        result
      end
      assert_nil connect(running).write(GET).read_some
      assert_empty running.log
    end
    assert eventually { closed.size == 1 }
  end

  def test_callbacks_and_the_access_log
    seen = Queue.new
    running = serve(lint: false, log_requests: true) do |env|
      env["rack.response_finished"] << ->(_env, status, _headers, error) { seen << [status, error] }
      env["rack.hijack"].call.close
      IGNORED
    end
    assert_nil connect(running).write(GET).read_some
    assert_equal [nil, nil], seen.pop
    assert running.logged?(%r{"GET / HTTP/1\.1" HIJACKED -1 })
  end

  def test_too_late
    seen = Queue.new
    hijacks = Queue.new
    running = serve(lint: false) do |env|
      hijacks << env["rack.hijack"]
      [200, TYPE.dup, Enumerator.new do |out|
        out << "begun"
        env["rack.hijack"].call
      rescue IOError => e
        seen << e.message
      end]
    end
    assert_equal "begun", ask(running).body
    assert_match(/begun/, seen.pop)
    assert_match(/over/, assert_raises(IOError) { hijacks.pop.call }.message)
  end

  def test_a_client_that_has_gone
    seen = Queue.new
    gate = Queue.new
    running = serve(lint: false) do |env|
      gate.pop
      env["rack.hijack"].call.close
      seen << :taken
    rescue Abaca::PeerError => e
      seen << e.class
      raise
    end
    client = connect(running).write(GET)
    assert eventually { running.server.stats[:in_app] == 1 }
    client.reset
    assert eventually { running.server.stats[:connections].zero? }
    gate << 1
    assert_equal Abaca::PeerError, seen.pop
  end

  # Has others run in the middle of TCPSocket.for_fd.
  def slowly_made_sockets
    singleton = TCPSocket.singleton_class
    singleton.define_method(:for_fd) { |fd| sleep(0.01) && super(fd) }
    yield
  ensure
    singleton.remove_method(:for_fd)
  end

  # --- partial hijack ---

  def test_partial_hijack
    closed = Queue.new
    running = serve do
      body = Rack::BodyProxy.new(["ignored"]) { closed << true }
      [200, TYPE.merge("rack.hijack" => ->(stream) { stream.write("one", "two") && stream.close }), body]
    end
    client = connect(running)
    response = client.call(GET)
    assert_equal [:chunked, "onetwo"], [response.framing, response.body]
    assert_nil response["rack.hijack"]
    assert client.usable?
    assert eventually { closed.size == 2 }
  end

  def test_partial_hijack_that_is_not_callable
    running = serve(lint: false) { [200, TYPE.merge("rack.hijack" => "x"), []] }
    assert_equal 500, ask(running).status
  end

  def test_partial_hijack_of_a_head
    called = Queue.new
    running = serve(lint: false) { [200, TYPE.merge("rack.hijack" => ->(*) { called << true }), []] }
    client = connect(running)
    2.times { assert_equal 200, client.call(request("HEAD"), head: true).status }
    assert_empty called
  end

  # --- upgrades ---

  # An app that answers to UPGRADE and echoes what comes.
  def echo(status, fields, lint: Rack.release >= "3", **options, &block)
    block ||= lambda do |stream|
      stream.write(stream.read(5).upcase)
    ensure
      stream.close
    end
    serve(lint: lint, **options) { [status, fields.dup, block] }
  end

  def test_the_env_tells_what_the_client_offers
    running = serve { |env| [200, TYPE.dup, [env["rack.protocol"].inspect]] }
    assert_equal '["echo", "chat/2"]', ask(running, UPGRADE).body
    several = UPGRADE.sub("\r\n\r\n", "\r\nUpgrade:  , third ,\r\n\r\n")
    assert_equal '["echo", "chat/2", "third"]', ask(running, several).body
    [GET, UPGRADE.sub("HTTP/1.1", "HTTP/1.0"), UPGRADE.sub(", Upgrade", "")].each do |bytes|
      assert_equal "nil", ask(running, bytes).body, bytes
    end
  end

  # RFC 9110 7.8, 15.2.2
  def test_upgrade
    [101, 200].each do |status|
      client = connect(echo(status, { "rack.protocol" => "chat/2", "x-a" => "1" }))
      head, rest = client.write("#{UPGRADE}early").read_until("EARLY").split("\r\n\r\n", 2)
      lines = head.split("\r\n")
      assert_equal "HTTP/1.1 101 Switching Protocols", lines.first
      assert_equal ["connection: upgrade", "upgrade: chat/2", "x-a: 1"],
                   lines.drop(1).map(&:downcase).reject { |line| line.start_with?("date:") }.sort
      assert_equal "EARLY", rest
      assert_nil client.read_some
    end
  end

  # RFC 9110 7.8: the other protocol begins behind the request's content, and is not that.
  def test_an_upgrade_before_the_body_was_read
    running = serve(lint: false) do |env|
      env["HTTP_X_READ"] == "all" ? env["rack.input"].read : env["rack.input"].read(env["HTTP_X_READ"].to_i)
      [101, { "rack.protocol" => "chat/2" }, ->(io) { io.write(io.gets) && io.close }]
    end
    post = UPGRADE.sub("GET", "POST")
    { "Content-Length: 3" => "abc", "Transfer-Encoding: chunked" => "3\r\nabc\r\n0\r\n\r\n" }.each do |field, body|
      rest = "#{body}raw\n"
      { "0" => 500, "2" => 500, "all" => 101 }.each do |read, status|
        client = connect(running).write(post.sub("\r\n", "\r\n#{field}\r\nX-Read: #{read}\r\n") + rest)
        found = client.half_close.drain
        assert found.start_with?("HTTP/1.1 #{status}"), found
        assert_equal status == 101, found.end_with?("\r\n\r\nraw\n"), found
      end
    end
    assert running.logged?(/an upgrade before the request's body was read/)
  end

  # RFC 9110 7.8, 15.2: no interim response asks a client that has ended its side whether it is still there.
  def test_nothing_of_http_follows_an_upgrade
    half_closed = Queue.new
    asked = Queue.new
    running = serve(lint: false, cancel_on_disconnect: true, max_pending_output: 100_000_000) do |env|
      client = env["abaca.client"]
      ServerCase.beside { half_closed.pop && (asked << client.gone?) }
      130.times { client.inform(103, { "x-much" => "y" * 64_000 }) } # more than the sockets take
      [101, { "rack.protocol" => "echo" }, ->(io) { io.write("raw") && io.close }]
    end
    client = connect(running, receive_buffer: 4096).write(UPGRADE)
    assert eventually { in_phase(running, :drain) == 1 }
    client.half_close
    half_closed << true
    refute asked.pop
    heads = client.drain.split("\r\n\r\n").map { |head| head[0, 12] }
    assert_equal ["HTTP/1.1 103", "HTTP/1.1 101", "raw"], heads.uniq
  end

  # Two threads that ask for the socket at once get the same one.
  def test_it_is_the_same_for_all_who_ask
    taken = Queue.new
    running = serve(lint: false) do |env|
      askers = Array.new(4) { Thread.new { env["rack.hijack"].call } }
      sockets = askers.map(&:value)
      taken << sockets.map(&:object_id).uniq.size
      sockets.first.write("all the same")
      sockets.first.close
      IGNORED.dup
    end
    slowly_made_sockets { assert_equal "all the same", connect(running).write(GET).drain }
    assert_equal 1, taken.pop
  end

  # As apps before Rack 3.1 do it.
  def test_upgrade_with_fields_of_the_apps_own
    fields = { "Connection" => "Upgrade", "Upgrade" => "echo" }
    fields["rack.hijack"] = ->(stream) { stream.write("raw") && stream.close }
    running = serve(lint: false) { [101, fields.dup, []] }
    found = connect(running).write(UPGRADE).drain
    assert_equal 1, found.scan(/^connection: upgrade\r$/i).size
    assert_equal 1, found.scan(/^upgrade: echo\r$/i).size
    refute_match(/transfer-encoding|content-length/i, found)
    assert found.end_with?("\r\n\r\nraw")
  end

  def test_both_ways_at_once
    running = echo(101, { "rack.protocol" => "echo" }) do |stream|
      reader = Thread.new { stream.read }
      stream.write("x" * 2_000_000)
      stream.close_write
      stream.close_read if reader.value.bytesize == 1_000_000
    end
    client = connect(running).write(UPGRADE)
    writer = Thread.new { client.write("y" * 1_000_000).half_close }
    assert_equal 2_000_000, client.drain.split("\r\n\r\n", 2).last.bytesize
    writer.join
  end

  # Each row: status, fields, body, request.
  CALL = :close.to_proc
  REFUSED = {
    "not offered" => [101, { "rack.protocol" => "other" }, CALL, UPGRADE],
    "no offer" => [101, { "rack.protocol" => "echo" }, CALL, GET],
    "no String" => [101, { "rack.protocol" => 1 }, CALL, UPGRADE],
    "HTTP/1.0" => [101, { "rack.protocol" => "echo" }, CALL, UPGRADE.sub("1.1", "1.0")],
    "no protocol" => [101, {}, CALL, UPGRADE],
    "an array" => [101, { "rack.protocol" => "echo" }, [], UPGRADE],
    "a length" => [101, { "rack.protocol" => "echo", "content-length" => "1" }, CALL, UPGRADE],
    "another status" => [404, { "rack.protocol" => "echo" }, CALL, UPGRADE],
    "an invalid field" => [101, { "rack.protocol" => "echo", "x" => "a\rb" }, CALL, UPGRADE]
  }.freeze

  def test_refused_upgrades
    running = serve(lint: false) { |env| REFUSED.fetch(env["HTTP_X_ROW"]).first(3) }
    REFUSED.each do |name, (_status, _fields, _body, bytes)|
      response = ask(running, bytes.sub("\r\n", "\r\nX-Row: #{name}\r\n"))
      assert_equal 500, response.status, name
    end
  end

  def test_a_protocol_that_only_equals_a_string
    running = serve(lint: false) { [101, { "rack.protocol" => SimpleDelegator.new("echo") }, CALL] }
    assert_equal 500, ask(running, UPGRADE).status
    assert running.logged?(/the protocol is not one that the client has offered/)
  end

  # The env is the app's, and what it has put there is not the client's word.
  def test_a_protocol_that_the_app_has_made_up
    ["a\r\nset-cookie: b", "a\0", ""].each do |protocol|
      running = serve(lint: false) do |env|
        env["rack.protocol"] = [protocol]
        [101, { "rack.protocol" => protocol }, CALL]
      end
      assert_equal 500, ask(running, UPGRADE).status, protocol.inspect
    end
  end

  def test_an_upgrade_that_raises_is_closed
    running = echo(101, { "rack.protocol" => "echo" }) { raise "secret" }
    assert connect(running).write(UPGRADE).drain.end_with?("\r\n\r\n")
    assert running.logged?(/secret/)
  end

  # A protocol that goes on for ever is a request in flight: waited for, and then broken off.
  def test_the_end_of_the_server_with_an_upgrade
    running = echo(101, { "rack.protocol" => "echo" }, force_shutdown_after: 1, &:read)
    client = connect(running).write(UPGRADE)
    assert client.read_until("\r\n\r\n")
    assert_equal 1, running.server.stats[:in_app]
    running.stop
    assert_nil client.read_some
  end

  def test_an_upgrade_that_is_declined
    running = serve { [200, TYPE.dup, ["plain"]] }
    client = connect(running)
    assert_equal "plain", client.call(UPGRADE).body
    assert client.usable?
  end
end
