# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "English"
require "net/http"
require "socket"
require "stringio"

# Abaca::Server as an object: its life, its listeners, several in one process.
class ServerTest < Minitest::Test
  APP = ->(env) { [200, { "content-type" => "text/plain" }, ["#{env['SERVER_PORT']} #{env['PATH_INFO']}"]] }

  def setup
    super
    @log = StringIO.new
    @servers = []
  end

  def teardown
    @servers.each(&:close)
    super
  end

  def server(app = APP, **options)
    Abaca::Server.new(app, { log: Abaca::Log.new(@log), **options }).tap { |made| @servers << made }
  end

  # Runs a server while the block is called.
  def running(made)
    thread = Thread.new { made.run }
    yield
  ensure
    made.stop
    assert thread.join(20), "the server did not stop"
  end

  def get(port, path = "/") = Net::HTTP.get(URI("http://127.0.0.1:#{port}#{path}"))

  def test_serves_until_it_is_stopped
    made = server
    port = made.add_tcp_listener("127.0.0.1", 0)
    running(made) { assert_equal "#{port} /a", get(port, "/a") }

    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port).close }
  end

  def test_settings_win_over_a_configuration
    config = Abaca::Config.new({ max_fibers: 7, max_queue: 3, header_timeout: 5 })
    log = Abaca::Log.new(@log)
    made = [Abaca::Server.new(APP, config:, force_shutdown_after: 2, header_timeout: 6, log:),
            Abaca::Server.new(APP, config, header_timeout: 6, log:),
            Abaca::Server.new(APP, { max_fibers: 7, header_timeout: 6 }, max_queue: 3, log:)]
    @servers.concat(made)

    assert_equal([[7, 3, 6]] * 3,
                 made.map { |one| one.config.to_h.values_at(:max_fibers, :max_queue, :header_timeout) })
    assert_equal [2.0, 30.0], made.first(2).map { |one| one.config[:shutdown_timeout] }
    assert_same config, Abaca::Server.new(APP, config:).tap { |one| @servers << one }.config
  end

  def test_what_is_no_configuration
    error = assert_raises(Abaca::ConfigError) { Abaca::Server.new(APP, config: { max_fibers: 7 }) }
    assert_match(/\Aconfig: an Abaca::Config is needed, not \{/, error.message)
    error = assert_raises(Abaca::ConfigError) { Abaca::Server.new(APP, config: Abaca::Config.new, max_fibres: 7) }
    assert_equal "unknown setting `max_fibres' (did you mean `max_fibers'?)", error.message
  end

  def test_several_in_one_process
    made = Array.new(3) { server }
    ports = made.map { |one| one.add_tcp_listener("127.0.0.1", 0) }
    threads = made.map { |one| Thread.new { one.run } }

    assert_equal ports.map { |port| "#{port} /" }, ports.map { |port| get(port) }
    made.first.stop
    assert threads.first.join(20)
    assert_equal ports.drop(1).map { |port| "#{port} /" }, ports.drop(1).map { |port| get(port) }
  ensure
    made.each(&:stop)
    threads.each { |thread| assert thread.join(20) }
  end

  def test_listens_on_every_loopback_address_with_one_port
    made = server
    port = made.add_tcp_listener("localhost", 0)
    running(made) do
      assert_equal "#{port} /", get(port)
      skip "no IPv6 here" unless Socket.ip_address_list.any?(&:ipv6_loopback?)
      assert_equal "#{port} /", Net::HTTP.new("::1", port).get("/", "Host" => "[::1]:#{port}").body
    end
  end

  def test_host_names_and_brackets
    assert_equal ["127.0.0.1", "::1"], Abaca::Addresses.of("LocalHost")
    assert_equal ["::1"], Abaca::Addresses.of("[::1]")
    assert_equal ["0.0.0.0"], Abaca::Addresses.of("0.0.0.0")
    assert_raises(Abaca::ConfigError) { Abaca::Addresses.of("no.such.host.invalid") }
  end

  def test_urls
    Dir.mktmpdir do |dir|
      made = server
      port = made.add_tcp_listener("127.0.0.1", 0)
      made.add_unix_listener("#{dir}/s")

      assert_equal ["http://127.0.0.1:#{port}", "unix://#{dir}/s"], made.urls
    end
  end

  def test_port_that_is_taken
    taken = TCPServer.new("127.0.0.1", 0)

    assert_raises(Errno::EADDRINUSE) { server.add_tcp_listener("127.0.0.1", taken.addr[1]) }
  ensure
    taken&.close
  end

  def test_live_unix_socket_is_an_error_and_a_stale_one_is_replaced
    Dir.mktmpdir do |dir|
      path = "#{dir}/s"
      UNIXServer.new(path).close
      assert_path_exists path
      server.add_unix_listener(path)
      assert_raises(Errno::EADDRINUSE) { server.add_unix_listener(path) }
    end
  end

  def test_runs_only_once
    made = server
    made.add_tcp_listener("127.0.0.1", 0)
    running(made) { nil }

    assert_match(/only once/, assert_raises(Abaca::Error) { made.run }.message)
  end

  def test_stop_before_run
    made = server
    made.add_tcp_listener("127.0.0.1", 0)
    made.stop

    assert Thread.new { made.run }.join(20), "the server ran although it was stopped"
  end

  def test_close_without_run_frees_the_port
    made = server
    port = made.add_tcp_listener("127.0.0.1", 0)
    2.times { made.close }

    TCPServer.open("127.0.0.1", port) { |socket| assert_equal port, socket.local_address.ip_port }
  end

  def test_thread_with_a_scheduler_is_refused
    made = server
    message = nil
    Thread.new do
      Fiber.set_scheduler(Abaca::Scheduler.new)
      message = assert_raises(Abaca::Error) { made.run }.message
    end.join

    assert_match(/this thread has a fiber scheduler/, message)
  end

  def test_thread_is_as_it_was_afterwards
    made = server
    made.add_tcp_listener("127.0.0.1", 0)
    scheduler = Thread.new do
      Thread.new { made.stop }
      made.run
      Fiber.scheduler
    end.value

    assert_nil scheduler
  end

  def test_options_are_checked
    assert_match(/unknown setting `max_body'/, assert_raises(Abaca::ConfigError) { server(max_body: 1) }.message)
    assert_match(/no Rack app/, assert_raises(Abaca::ConfigError) { server(Object.new) }.message)
  end

  def test_stats_are_a_hash_of_counters
    made = server
    port = made.add_tcp_listener("127.0.0.1", 0)
    running(made) do
      get(port)
      assert_kind_of Hash, made.stats
      assert(made.stats.values.any? { |value| value.is_a?(Integer) && value.positive? }, made.stats.inspect)
    end
  end

  # A connection has a fiber while it has a request; a collection reads the stacks of all fibers.
  def test_idle_connections_hold_no_fiber
    made = server(spare_loops: 0) # each of which has fibers of its own
    port = made.add_tcp_listener("127.0.0.1", 0)
    fibers = -> { ObjectSpace.each_object(Fiber).count(&:alive?) }
    sockets = []
    running(made) do
      before = fibers.call
      100.times do
        sockets << TCPSocket.new("127.0.0.1", port)
        sockets.last.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert_match(%r{\AHTTP/1.1 200 }, sockets.last.readpartial(4096))
      end
      assert_equal 100, made.stats[:connections]
      assert_operator fibers.call - before, :<, 10
    end
  ensure
    sockets.each(&:close)
  end

  # Whether all threads of a process wait.
  def asleep?(pid)
    Dir["/proc/#{pid}/task/*/stat"].all? { |path| File.read(path)[/\) (\S)/, 1] == "S" }
  rescue SystemCallError
    false # one has just ended
  end

  # A program of one's own: nothing but the server runs in it, and no line of a log has started a writer.
  def test_a_trap_handler_may_stop_it_in_each_mode
    program = <<~RUBY
      require "abaca"
      server = Abaca::Server.new(->(_env) { [200, {}, ["done"]] }, mode: ARGV[0].to_sym)
      trap(:TERM) { server.stop }
      $stdout.puts server.add_tcp_listener("127.0.0.1", 0)
      $stdout.flush
      server.run
    RUBY
    includes = $LOAD_PATH.map { |path| "-I#{path}" }
    %w[fiber thread].each do |mode|
      IO.popen([RbConfig.ruby, *includes, "-e", program, mode]) do |io|
        assert_equal "done", get(Integer(io.gets))
        assert(eventually { asleep?(io.pid) })
        Process.kill(:TERM, io.pid)
        ended = io.wait_readable(20)
        Process.kill(:KILL, io.pid) unless ended
        assert ended, "mode #{mode}: it did not end"
      end
      assert_predicate $CHILD_STATUS, :success?
    end
  end

  def test_halt_raises_in_the_requests_fiber
    ended = Thread::Queue.new
    app = lambda do |_env|
      ended << :begun
      sleep
    rescue Abaca::Shutdown => e
      ended << e
      raise
    end
    made = server(app, shutdown_timeout: nil) # which a stop would take
    port = made.add_tcp_listener("127.0.0.1", 0)
    thread = Thread.new { made.run }
    socket = TCPSocket.new("127.0.0.1", port)
    socket.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert_equal :begun, ended.pop
    made.halt

    assert thread.join(20), "the server did not halt"
    assert_kind_of Abaca::Shutdown, ended.pop
  ensure
    socket&.close
  end
end
