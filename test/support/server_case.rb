# frozen_string_literal: true

require "abaca"
require "rack"
require "rack/lint"
require "stringio"
require "uri" # Rack 2's Lint takes it for granted
require_relative "plain_scheduler"
require_relative "test_build"
require_relative "wire"

# For tests that talk to a server in this process: it starts one, stops it at the end, and checks
# that neither a descriptor, a thread nor a child process is left over.
module ServerCase
  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello\n"]] }
  # The headers of most responses; an app that may change them gives a copy.
  TYPE = { "content-type" => "text/plain" }.freeze
  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"

  # The server's options for a way to run the app: "fiber", "thread", "routed" (a loop leads, and hands
  # every request over to a thread), "hybrid" (the first request for a path runs on a fiber, and all that
  # come when it is over on threads), or "guest:" and the class of a fiber scheduler. What goes over the
  # wire is the same in all of them.
  def self.mode_options(mode)
    threads = { threads: [0, 256], clean_thread_locals: true }
    case mode
    when "fiber" then {}
    when "thread" then { mode: :thread, **threads }
    when "routed" then { routes: [[:thread, "*"]], **threads }
    when "hybrid" then { mode: :hybrid, hybrid_threshold: 0.001, hybrid_requests: 1, **threads }
    when /\Aguest:(.+)/ then { fiber_scheduler: Regexp.last_match(1) }
    else raise ArgumentError, "ABACA_TEST_MODE: fiber, thread, routed, hybrid or guest:SCHEDULER is needed, not #{mode}"
    end
  end

  # ABACA_TEST_MODE has the servers of all these tests run their apps that way.
  MODE = mode_options(ENV.fetch("ABACA_TEST_MODE", "fiber")).freeze

  # Whether requests run on threads, which have no fiber scheduler.
  def self.threads? = MODE.key?(:threads)

  # Whether a request may run on either.
  def self.hybrid? = MODE[:mode] == :hybrid

  # On what the first requests of a server run, which come before one is over.
  def self.first_mode = threads? && !hybrid? ? :thread : :fiber

  # ABACA_TEST_TLS has clients and servers of all these tests speak TLS.
  TLS = ENV.key?("ABACA_TEST_TLS")
  require_relative "tls_transport" if TLS

  # Options with which the app is called before its request's body is here, whatever it runs on.
  STREAMED = { max_body_memory_total: 0 }.freeze

  # Runs the block beside the request that calls this: on a fiber, or on a thread where it has none.
  def self.beside(&block)
    return Fiber.schedule(&block) unless threads?

    Thread.new(&block).tap { |thread| thread.report_on_exception = false }
  end

  # Options for a server that runs this number of requests at once.
  def self.at_once(number) = { max_fibers: number, **(threads? ? { threads: [0, number] } : {}) }

  # The same, and so many places for requests there are, of whatever kind. In hybrid mode those are fibers:
  # threads would be more of them, so nothing moves.
  def self.places(number)
    return { max_fibers: number, hybrid_threshold: 60_000 } if hybrid?

    threads? ? { threads: [0, number] } : { max_fibers: number }
  end

  MOVE = /^abaca: warning: requests for .*: they run on threads from now on .*\n/
  private_constant :MOVE

  # A server that runs: the Abaca::Server, its port, the thread it runs in, and where its log goes.
  Running = Struct.new(:server, :port, :thread, :output) do
    # What was logged so far, without what hybrid mode itself has to say when these tests run in it.
    def log
      server.log.flush(Waits::WITHIN)
      ServerCase.hybrid? ? output.string.gsub(MOVE, "") : output.string.dup
    end

    # Waits until the server logged something that matches; returns whether it did.
    def logged?(pattern, within: Waits::WITHIN)
      Waits.eventually(within: within) { pattern.match?(log) }
    end

    # Ends the server; the second time does nothing.
    def stop(within: Waits::WITHIN)
      return unless thread

      server.stop
      finish(within)
    end

    def halt(within: Waits::WITHIN)
      return unless thread

      server.halt
      finish(within)
    end

    private

    def finish(within)
      runner = thread
      self.thread = nil
      return if runner.join(within)

      runner.kill
      raise "the server did not stop within #{within} s"
    end
  end

  # The descriptors that are open, with what they point to.
  def self.descriptors
    Dir.children("/proc/self/fd").filter_map do |fd|
      [fd.to_i, File.readlink("/proc/self/fd/#{fd}")]
    rescue SystemCallError
      nil # the one of the listing itself
    end.to_h
  end

  def setup
    super
    # Ruby makes these when they are first needed, and keeps them.
    Timeout.timeout(60) { nil } if defined?(Timeout)
    @before = { threads: Thread.list, descriptors: ServerCase.descriptors }
    @running = []
    @clients = []
  end

  def teardown
    @clients.each(&:close)
    stuck = @running.filter_map { |running| end_of(running) }
    assert_empty stuck
    assert_nothing_left
    super
  end

  # Starts a server around `app` and returns it as Running.
  #
  # app: a Rack app, or the block; lint: whether Rack::Lint stands around it; defer_accept: of the
  # listener; slot: of the page; the other arguments are the server's options.
  def serve(app = nil, lint: true, defer_accept: false, slot: nil, **options, &block)
    app ||= block || HELLO
    app = Rack::Lint.new(app) if lint
    output = StringIO.new(String.new(encoding: Encoding::BINARY))
    # What a busy machine has made of a loop is no affair of a test that reads the log.
    server = Abaca::Server.new(app, { log: Abaca::Log.new(output, output), errors: output, stall_report: 0,
                                      force_shutdown_after: 5 }.merge(MODE, options), slot: slot)
    # A connection shall be accepted even before it sends something.
    listen = server.method(TLS ? :add_ssl_listener : :add_tcp_listener)
    port = listen.call("127.0.0.1", 0, defer_accept: defer_accept, **(TLS ? TLSTransport.certificate : {}))
    thread = Thread.new { server.run }
    Running.new(server, port, thread, output).tap { |running| @running << running }
  end

  # A new connection, closed at the end of the test.
  def connect(running, **options)
    (TLS ? TLSClient : Wire::Client).new(running.port, **options).tap { |client| @clients << client }
  end

  # Ends a server in the middle of a test, its clients first: a stop waits a second for what idle ones may send.
  def finish(running)
    @clients.each(&:close).clear
    running.stop
  end

  # The response to `bytes` on a new connection.
  def ask(running, bytes = GET, **options)
    connect(running, **options).call(bytes)
  end

  # Checks that `bytes` are answered with this status, and the connection is closed.
  def assert_refused(status, bytes, running = (@refusing ||= serve))
    client = connect(running)
    response = client.call(bytes)
    assert_equal status, response.status, bytes[0, 200].inspect
    assert response.close?
    assert client.closed?
  end

  # How many requests are in this phase, for instance :drain, waiting for their clients to read.
  def in_phase(running, phase) = running.server.requests.count { |request| request[:phase] == phase }

  # Waits until the server has come to all that clients have sent, or ended, so far: it answers who comes behind them.
  def caught_up(running)
    client = connect(running)
    assert_equal 400, client.call("?\r\n\r\n").status
    client.close # or the server would linger
  end

  # Waits until the sockets of clients that do not read are full: the server has sent nothing for some looks.
  def sockets_filled(running)
    sent = []
    assert(eventually { (sent << running.server.stats[:sent]).size > 4 && sent.last(4).uniq.one? })
  end

  # Skips a test of what only a fiber scheduler can do.
  def needs_scheduler
    skip "a thread has no fiber scheduler" if ServerCase.threads?
  end

  # Whether nobody listens any more.
  def refused?(running)
    Wire::Client.new(running.port).close
    false
  rescue Errno::ECONNREFUSED
    true
  end

  # Whether the servers' threads wait for work, all of them. One that still has its request, or is being cleaned after
  # it, does not, and another may be made in its place. Ruby takes a thread for stopped as soon as it has given up the
  # lock, so the kernel is asked whether it has come to its wait.
  def threads_rest?
    busy = @running.any? { |running| running.server.stats.dig(:thread_pool, :busy)&.positive? }
    !busy && Thread.list.all? do |thread|
      !thread.name&.start_with?("abaca thread") || (thread.stop? && kernel_state(thread) == "S")
    end
  end

  def kernel_state(thread) = File.read("/proc/self/task/#{thread.native_thread_id}/stat")[/\) (\w)/, 1]

  # A request's bytes. headers: Array of pairs or Hash; fields: the same as keywords, "Name" => "value";
  # body: adds its Content-Length.
  def request(verb, target = "/", headers = [], body: nil, version: "1.1", **fields)
    lines = ["#{verb} #{target} HTTP/#{version}", "Host: a.test"]
    [*headers, *fields].each { |name, value| lines << "#{name}: #{value}" }
    lines << "Content-Length: #{body.bytesize}" if body
    "#{lines.join("\r\n")}\r\n\r\n#{body}".b
  end

  # `pieces` in the chunked transfer coding.
  def chunked(*pieces)
    (pieces.map { |piece| "#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n" } << "0\r\n\r\n").map(&:b).join
  end

  private

  # Stops the server; returns what went wrong, or nil.
  def end_of(running)
    running.stop
    running.server.log.release
    nil
  rescue StandardError => e
    e.full_message(highlight: false)
  end

  # What is open and in nobody's hands goes with a collection, the last resort: it takes longer than most tests.
  def assert_nothing_left
    left = nil
    clean = eventually(within: 0.1) { (left = leftovers).empty? } ||
            eventually { GC.start || (left = leftovers).empty? }
    assert clean, "left over: #{left.inspect}"
    GC.start if TestBuild.sanitized? # it sees how the test's objects are freed
  end

  def leftovers
    threads = Thread.list - @before[:threads]
    opened = ServerCase.descriptors.reject { |fd, target| @before[:descriptors][fd] == target }
    found = {}
    found[:threads] = threads unless threads.empty?
    found[:descriptors] = opened unless opened.empty?
    child = waitable_child
    found[:child] = child if child
    found
  end

  def waitable_child
    Process.wait(-1, Process::WNOHANG) || :running
  rescue Errno::ECHILD
    nil
  end
end
