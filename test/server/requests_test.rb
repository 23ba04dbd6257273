# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"

# Server#requests and #dump: what every request in flight is at.
class RequestsTest < Minitest::Test
  include ServerCase

  LOCK = Mutex.new
  GATE = Thread::Queue.new

  # What the app does for each path.
  DEEDS = {
    "/sleep" => ->(_env) { sleep },
    "/queue" => ->(_env) { GATE.pop },
    "/holder" => ->(_env) { LOCK.synchronize { GATE.pop } },
    "/mutex" => ->(_env) { LOCK.synchronize { nil } },
    "/body" => ->(env) { env["rack.input"].read }
  }.freeze

  def setup
    super
    GATE.clear
  end

  def teardown
    super
    GATE.clear
  end

  # Most requests here never end by themselves.
  def serve(*arguments, **options, &) = super(*arguments, shutdown_timeout: 0.1, **options, &)

  def test_nothing_before_and_after_the_run
    server = Abaca::Server.new(HELLO, log: Abaca::Log.new(StringIO.new))
    assert_empty server.requests
    running = serve
    ask(running)
    assert_empty running.server.requests
    running.stop
    assert_empty running.server.requests
    assert_match(/\A=== 0 requests, 0 other fibers, \d+ threads ===$/, running.server.dump)
  end

  # As many stacks as there are, each once.
  def test_a_dump_groups_equal_stacks
    running = serve_deeds
    skip "only a scheduler of ours tells" unless tells?(running)
    5.times { start(running, "/sleep") }
    2.times { start(running, "/queue") }
    start(running, "/holder")
    text = running.server.dump
    groups = text.scan(/^(\d+) wait for (\w+), the oldest \d+\.\d{3} s:\n((?:  .*\n)+)/)
    assert_equal [%w[5 sleep], %w[2 queue]], groups.map { |group| group.first(2) }
    groups.each { |_, _, frames| assert_match(/requests_test\.rb:\d+:in /, frames) }
  end

  def test_where_it_came_from_and_for_how_long_it_has_been_here
    running = serve_deeds
    before = now
    start(running, "/sleep?token=secret")
    nothing_for(0.1)
    found = running.server.requests.first
    spent = now - before
    assert_equal ["GET", "/sleep", "127.0.0.1", :app, ServerCase.first_mode, false],
                 found.values_at(:method, :path, :peer, :phase, :mode, :cancelled)
    assert_operator found[:age], :>=, 0.1
    assert_operator found[:age], :<=, spent
    refute_match(/secret/, found.inspect)
    refute_match(/secret/, running.server.dump)
  end

  def test_what_fibers_wait_for
    running = serve_deeds
    skip "only a scheduler of ours tells" unless tells?(running)
    start(running, "/sleep", "/queue", "/holder", "/mutex")
    found = running.server.requests.to_h { |request| [request[:path], request] }
    assert_equal(%i[sleep queue queue mutex], %w[/sleep /queue /holder /mutex].map { |path| found[path][:waiting_for] })
    assert_equal "held by GET /holder", found["/mutex"][:detail] if RUBY_VERSION < "3.5"
    found.each_value do |request|
      assert_match(/\A(test|.*#{File.basename(__FILE__)}):?/, request[:frame])
      assert_includes request[:backtrace].join("\n"), File.basename(__FILE__)
    end
    text = running.server.dump
    assert_match(%r{^request +\d+\.\d{3} s  app      GET /sleep from 127\.0\.0\.1  waits for sleep at }, text)
    assert_match(%r{GET /mutex from 127\.0\.0\.1  waits for mutex}, text)
  end

  def test_time_that_is_left_and_a_socket_that_it_waits_for
    peer = TCPServer.new("127.0.0.1", 0)
    before = now
    running = serve do |env|
      env["PATH_INFO"] == "/io" ? TCPSocket.open("127.0.0.1", peer.addr[1], &:read) : sleep(60)
      HELLO.call(env)
    end
    skip "only a scheduler of ours tells" unless tells?(running)
    start(running, "/io", "/sleep")
    found = nil
    # It waits until it is connected, and then for what it reads.
    reads = eventually do
      found = running.server.requests.to_h { |request| [request[:path], request.values_at(:waiting_for, :detail)] }
      found["/io"].last[/readable, (.+)/, 1]
    end
    assert_equal [:io, "127.0.0.1:#{peer.addr[1]}"], [found["/io"][0], reads]
    assert_match(/\A\d+(\.\d+)? s left\z/, found["/sleep"][1])
    assert_includes (60 - (now - before)).round(3)..60, Float(found["/sleep"][1][/\A\S+/])
  ensure
    peer&.close
  end

  def test_phases
    running = serve(lint: false, **STREAMED) do |env|
      DEEDS.fetch(env["PATH_INFO"], ->(_env) {}).call(env)
      case env["PATH_INFO"]
      when "/stream" then [200, TYPE.dup, ->(stream) { GATE.pop && stream.close }]
      when "/drain" then [200, TYPE.dup, Enumerator.new { |out| 100.times { out << ("x" * 500_000) } }]
      else HELLO.call(env)
      end
    end
    start(running, "/stream", "/sleep")
    connect(running, receive_buffer: 4096).write(request("GET", "/drain"))
    connect(running).write("POST /body HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nab")
    phases = { "/stream" => :stream, "/drain" => :drain, "/sleep" => :app, "/body" => :body }
    seen = nil
    assert(eventually { (seen = by_path(running, :phase)) == phases }, seen.inspect)
  end

  def test_requests_that_wait_to_be_taken
    running = serve_deeds(**ServerCase.at_once(1))
    start(running, "/queue")
    clients = %w[/a?b=secret /c].map { |path| connect(running).write(request("POST", path, body: "xx")) }
    assert eventually { running.server.stats.values_at(:in_app, :waiting).sum == 3 }
    found = running.server.requests
    assert_equal [["/queue", :app], ["/a", :queued], ["/c", :queued]], found.map { |row| row.values_at(:path, :phase) }
    assert_equal ["POST", "127.0.0.1"], found.last.values_at(:method, :peer)
    assert_match(%r{^request +\d+\.\d{3} s  queued   POST /a from 127\.0\.0\.1$}, running.server.dump)
    3.times { GATE << true }
    clients.each { |client| assert_equal 200, client.read.status }
  end

  def test_every_request_of_a_long_queue
    running = serve_deeds(**ServerCase.at_once(1))
    start(running, "/queue")
    clients = Array.new(300) { connect(running).write(request("GET", "/")) }
    assert eventually { running.server.stats.values_at(:in_app, :waiting).sum == 301 }
    assert_equal({ app: 1, queued: 300 }, running.server.requests.map { |row| row[:phase] }.tally)
    assert_match(/^=== 301 requests, /, running.server.dump)
    GATE << true
    clients.each { |client| assert_equal 200, client.read.status }
  end

  # The one who asks is there himself.
  def test_from_within_a_request
    server = nil
    running = serve { |_env| [200, TYPE.dup, [Marshal.dump(server.requests), server.dump]] }
    server = running.server
    text = ask(running).body
    assert_match(%r{app      GET / from 127\.0\.0\.1  runs at }, text)
  end

  def test_fibers_of_no_request
    running = serve do |env|
      Fiber.schedule { GATE.pop }
      HELLO.call(env)
    end
    skip "only a scheduler of ours tells" unless tells?(running)
    ask(running)
    text = nil
    # The request is over a little later than its response is here.
    eventually { (text = running.server.dump).include?("=== 0 requests") && text.include?("waits for queue") }
    GATE << true
    assert_match(/^=== 0 requests, 1 other fibers, \d+ threads ===\nfiber    waits for queue at /, text)
    assert_match(/^Thread: TID-\w+ main \(\w+\)$/, text)
  end

  def test_a_cancelled_request_that_goes_on
    running = serve(request_timeout: 1) do |env|
      begin
        sleep
      rescue Abaca::DeadlineExceeded
        GATE.pop
      end
      HELLO.call(env)
    end
    start(running, "/")
    assert(eventually { running.server.requests.first&.fetch(:cancelled) })
    assert_match(%r{GET / from 127\.0\.0\.1 cancelled}, running.server.dump)
    GATE << true
  end

  def test_callbacks_after_the_response
    running = serve(lint: false) do |env|
      env["rack.response_finished"] << ->(*) { GATE.pop }
      HELLO.call(env)
    end
    ask(running)
    assert(eventually { by_path(running, :phase) == { "/" => :finished } })
    assert_match(%r{finished GET /}, running.server.dump)
    GATE << true
  end

  # Nothing that a client sends, or the app puts into its env, can forge a line or move a cursor.
  def test_paths_are_escaped_and_cut_off
    running = serve(lint: false) do |env|
      env["PATH_INFO"] = "/a\n=== forged\e[1m" if env["PATH_INFO"] == "/odd"
      env["REQUEST_METHOD"] = nil if env["PATH_INFO"] == "/none"
      GATE.pop
      HELLO.call(nil)
    end
    start(running, "/odd", "/none", "/#{'x' * 5000}")
    lines = nil
    # The first one's path is its own until the app has changed it.
    told = eventually do
      (lines = running.server.dump.lines.grep(/^request/)).none? { |line| line.include?("/odd") }
    end
    assert told, lines.inspect
    assert_equal 3, lines.size
    assert(lines.any? { |line| line.include?('/a\x0A=== forged\x1B[1m') })
    assert_operator lines.map(&:size).max, :<, 600
    3.times { GATE << true }
  end

  # Nor can the name of a thread, or of a file or method in its backtrace: here of all kinds of bytes together.
  def test_names_of_threads_are_escaped
    names = ["x\n=== forged\nabaca: error in the app: forged", "\e[2J\u009b\u202e\u2066\u2028\u0085", "\xff".b,
             "caf\u00e9"]
    file = "/\u202eapp\n=== forged\e.rb"
    wait = RubyVM::InstructionSequence.compile("RequestsTest::GATE.pop", file, file, 7)
    waiting = names.map { |name| Thread.new { wait.eval }.tap { |thread| thread.name = name } }
    assert(eventually { waiting.all?(&:stop?) })
    lines = serve.server.dump.lines(chomp: true)
    assert_equal 1, lines.grep(/^===/).size - 1, "the first and the last line"
    assert_empty lines.grep(/^abaca:|[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/)
    shown = ['x\x0A=== forged\x0Aabaca: error in the app: forged',
             '\x1B[2J\xC2\x9B\xE2\x80\xAE\xE2\x81\xA6\xE2\x80\xA8\xC2\x85', '\xFF', "caf\u00e9"]
    threads = lines.grep(/^Thread: /).join("\n")
    shown.each { |name| assert_match(/^Thread: TID-\w+ #{Regexp.escape(name)} \(sleep/, threads) }
    assert_equal names.size, lines.grep(%r{^  /\\xE2\\x80\\xAEapp\\x0A=== forged\\x1B\.rb:7:in .<compiled>'$}).size
  ensure
    names.size.times { GATE << true }
    waiting.each(&:join)
  end

  # Bytes of a path and characters of a file's name stand in one line.
  def test_texts_of_several_encodings
    fiber = { waiting_for: :mutex, detail: "held by GET /\xff".b, frame: "/caf\u00e9.rb:1" }
    requests = Object.new
    requests.define_singleton_method(:to_a) { [] }
    requests.define_singleton_method(:others) { [fiber] }
    dump = Abaca::Dump.new(requests).to_s
    assert_includes dump, 'fiber    waits for mutex (held by GET /\xFF) at /caf\xC3\xA9.rb:1'
  end

  # Asking in the middle of everything disturbs nothing.
  def test_under_load
    running = serve do |env|
      sleep 0.001
      HELLO.call(env)
    end
    clients = Array.new(10) { connect(running) }
    done = false
    asked = rounds = 0
    asker = Thread.new do
      until done
        assert_kind_of Array, running.server.requests
        assert_kind_of String, running.server.dump
        asked += 1
        sleep 0.001
      end
    end
    while asker.alive? && (rounds < 30 || asked < 10)
      clients.each { |client| client.write(GET) }
      assert_equal(["hello\n"] * 10, clients.map { |client| client.read.body })
      rounds += 1
    end
    done = true
    asker.join
    assert(eventually { running.server.requests.empty? })
  end

  private

  def tells?(running) = running.server.native? && !ServerCase.threads?

  def serve_deeds(**options)
    serve(**options) do |env|
      DEEDS.fetch(env["PATH_INFO"], ->(_env) {}).call(env)
      HELLO.call(env)
    end
  end

  # One after the other, each once the one before has come to its wait, as far as one can tell.
  def start(running, *paths)
    paths.each do |path|
      before = running.server.stats[:in_app]
      connect(running).write(request("GET", path))
      assert(eventually { running.server.stats[:in_app] > before && (!tells?(running) || all_wait?(running)) })
    end
  end

  def all_wait?(running)
    running.server.requests.none? { |row| row[:phase] != :queued && [nil, :ready].include?(row[:waiting_for]) }
  end

  def by_path(running, key) = running.server.requests.to_h { |row| row.values_at(:path, key) }
end

# Which line of a backtrace is the app's.
class FramesTest < Minitest::Test
  OWN = File.expand_path("../../lib/abaca/server.rb", __dir__)
  LIBRARY = File.join(RbConfig::CONFIG["rubylibdir"], "net/http.rb")
  GEM = File.join(Gem.path.first, "gems/x-1.0/lib/x.rb")

  def test_the_innermost_line_of_the_app
    app = File.join(Dir.pwd, "app/models/a.rb")
    frames = ["<internal:kernel>:18:in `loop'", "#{OWN}:1", "#{LIBRARY}:2", "#{GEM}:3", "#{app}:4:in `b'", "/x.ru:5"]
    assert_equal "app/models/a.rb:4:in `b'", Abaca::Frames.top(frames)
    assert_equal "#{LIBRARY}:2", Abaca::Frames.top(frames.first(4))
    assert_equal "<internal:kernel>:18:in `loop'", Abaca::Frames.top(frames.first(2))
    assert_nil Abaca::Frames.top([])
    assert_nil Abaca::Frames.top(nil)
    assert_equal ["#{LIBRARY}:2", "/x.ru:5"], Abaca::Frames.without_own(frames.values_at(0, 1, 2, 5))
  end

  # Ruby gives a method of C that no line of Ruby has called the program's name: that of no file.
  def test_methods_of_c_alone
    { "puma:in 'Thread#keys'" => "'Thread#keys' (called from C)", "puma:in `keys'" => "`keys' (called from C)" }
      .each do |frame, shown|
        assert_equal [shown, shown], [Abaca::Frames.top([frame]), Abaca::Frames.place([frame])]
        frames = ["#{LIBRARY}:2:in `a'", frame]
        assert_equal "#{LIBRARY}:2:in `a'", Abaca::Frames.top(frames)
        assert_equal ["#{LIBRARY}:2:in `a'", shown], Abaca::Frames.without_own(frames)
        assert_equal shown, Abaca::Frames.top(["#{OWN}:1:in `a'", frame])
      end
    reader, writer = IO.pipe
    thread = Thread.new(&reader.method(:read))
    assert(eventually { thread.stop? })
    assert_match(/\A[`'](?:IO#)?read' \(called from C\)\z/, Abaca::Frames.top(thread.backtrace))
  ensure
    writer&.close
    thread&.join
    reader&.close
  end
end
