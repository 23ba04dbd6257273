# frozen_string_literal: true

require "test_helper"
require "json"
require "support/cluster_case"
require "abaca"
require "abaca/control"
require "abaca/control/cli"

# The process that answers for the launcher.
class ControlWatchTest < Minitest::Test
  include ClusterCase

  CONFIG = <<~RUBY
    state_path "state"
    activate_control_app "unix://control.sock", auth_token: "secret"
  RUBY
  # Seconds in which an answer comes from the page. Whoever waits for the launcher gets it after many more.
  SOON = 10

  def run_single(rackup = APP, config: CONFIG, **options)
    run_abaca(rackup, config:, **options).tap { |command| command.wait_for(/Use Ctrl-C/) }
  end

  def connect_control = UNIXSocket.new("#{@directory}/control.sock")

  def control_request(target, verb: "GET", token: "secret", fields: {})
    fields = { "Authorization" => "Bearer #{token}", **fields }
    "#{verb} #{target} HTTP/1.1\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n"
  end

  # A request for the control server, of which no launcher has to know: no state file is read.
  def ask_control(target, verb: "GET", token: "secret", fields: {})
    socket = connect_control
    socket.write(control_request(target, verb:, token:, fields:))
    raise "no answer to #{target}" unless socket.wait_readable(SOON)

    head, body = socket.read.split("\r\n\r\n", 2)
    [head[/\d{3}/].to_i, body]
  ensure
    socket&.close
  end

  def stats
    status, body = ask_control("/stats")
    assert_equal 200, status
    JSON.parse(body, symbolize_names: true)
  end

  # The sockets that a process has open.
  def sockets_of(pid)
    Dir["/proc/#{pid}/fd/*"].filter_map { |link| File.readlink(link)[/\Asocket:.*/] }
  end

  def while_stopped(command)
    command.signal(:STOP)
    yield
  ensure
    command.signal(:CONT)
  end

  def assert_ends(command, watch)
    assert_equal 0, finish(command)
    assert gone?(watch), "it was told to end, or killed"
    assert_empty Dir.children(@directory).grep(/sock|state/)
  end

  def test_answers_while_the_process_is_stopped
    command = run_single
    ask(command)
    known = nil
    assert(eventually { (known = stats)[:requests_count] == 1 })
    while_stopped(command) do
      found = stats
      assert_equal known.keys, found.keys
      assert_equal known[:abaca].keys, found[:abaca].keys
      assert_equal [1, 0, 1000], found.values_at(:requests_count, :backlog, :pool_capacity)
      assert_equal command.pid, JSON.parse(ask_control("/workers").last).dig("workers", 0, "pid")
    end
    assert_equal known.slice(:requests_count, :started_at), stats.slice(:requests_count, :started_at)
    assert_ends(command, watch_of(command))
  end

  def test_answers_while_master_and_workers_are_stopped
    command = run_cluster(APP, config: "#{CONFIG}workers 2\n")
    3.times { ask(command) }
    assert(eventually { stats.dig(:abaca, :requests) == 3 })
    while_stopped(command) do
      workers = booted(command).each { |worker| Process.kill(:STOP, worker.pid) }
      assert_equal 3, stats.dig(:abaca, :requests)
      assert_equal workers.map(&:pid).sort, stats[:worker_status].map { |worker| worker[:pid] }.sort
    ensure
      workers.each { |worker| Process.kill(:CONT, worker.pid) }
    end
    assert_ends(command, watch_of(command))
  end

  # No thread of Ruby's runs meanwhile.
  def test_answers_while_an_extension_keeps_the_lock
    command = run_single(<<~RUBY)
      require "fiddle"
      pause = Fiddle::Function.new(Fiddle.dlopen(nil)["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
      run(lambda do |env|
        if env["PATH_INFO"] == "/hold"
          $stderr.puts "held"
          pause.call(10_000) until File.exist?("go")
          File.write("gone", "")
        end
        [200, {}, ["done"]]
      end)
    RUBY
    client = TCPSocket.new("127.0.0.1", command.port)
    client.write(GET.sub("/", "/hold"))
    command.wait_for(/^held$/)
    assert_equal 1, stats[:busy_threads]
    refute_path_exists "#{@directory}/gone"
    File.write("#{@directory}/go", "")
    assert_match(/done\z/, client.readpartial(1000))
  ensure
    File.write("#{@directory}/go", "")
    client&.close
  end

  def test_a_killed_watch_is_started_anew
    command = run_single
    first = watch_of(command)
    Process.kill(:KILL, first)
    command.wait_for(/the watch has ended, and is started anew/)
    assert_equal 0, stats[:requests_count], "the kernel has kept the connection"
    second = watch_of(command)
    refute_equal first, second
    assert_ends(command, second)
  end

  # It is not among the children of the process that an app may wait for.
  def test_an_app_waits_for_all_of_its_children
    run_single("run ->(_) { [200, {}, [Process.waitall.size.to_s]] }").then do |command|
      client = TCPSocket.new("127.0.0.1", command.port)
      client.write(GET)
      assert client.wait_readable(SOON), "it waits for a child that does not end"
      assert_match(/\r\n\r\n0\z/, client.readpartial(1000))
      assert_ends(command, watch_of(command))
    ensure
      client&.close
    end
  end

  def test_ends_with_a_launcher_that_is_killed
    command = run_single
    watch = watch_of(command)
    %w[INT TERM HUP USR1 USR2 QUIT].each { |name| Process.kill(name, watch) }
    assert_equal 0, stats[:requests_count]
    command.dispose
    assert gone?(watch)
  end

  # The server waits for it as long as it may have something to answer.
  def test_a_watch_that_hangs_is_killed_at_the_end
    command = run_single
    watch = watch_of(command)
    Process.kill(:STOP, watch)
    assert_ends(command, watch)
  end

  # By what `rackup` and `rails server` call.
  def test_a_server_that_something_else_has_started
    File.write("#{@directory}/settings.rb", "port 0\n#{CONFIG}")
    File.write("#{@directory}/start.rb", <<~RUBY)
      require "abaca/rack_handler"
      Abaca::RackHandler.run(->(_env) { [200, {}, ["done"]] }, config_files: ["settings.rb"])
    RUBY
    output = "#{@directory}/output"
    words = [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "start.rb"]
    pid = Process.spawn(*words, chdir: @directory, in: File::NULL, %i[out err] => output)
    command = ProcessCase::Command.new(pid, output).tap { |one| @commands << one }
    command.wait_for(/Use Ctrl-C/)
    while_stopped(command) { assert_equal 0, stats[:requests_count] }
    watch = watch_of(command)
    command.signal(:INT)
    assert_equal 0, command.wait.exitstatus
    refute alive?(watch)
  end

  # Neither the listeners of the app nor what clients have sent, before the boot and after it.
  def test_has_nothing_of_the_app
    command = run_single(APP, config: "#{CONFIG}workers 0\n")
    connect(command.port).call(GET)
    own = sockets_of(command.pid)
    first = watch_of(command)
    shared = own & sockets_of(first)
    assert_equal 2, shared.size, "its own listener, and where processes that serve come to it"
    Process.kill(:KILL, first)
    second = nil
    assert(eventually { (second = watch_of(command)) && second != first && stats[:requests_count] == 1 })
    assert_equal shared, own & sockets_of(second)
    assert_ends(command, second)
  end

  # The file is there a moment before.
  def listens?
    UNIXSocket.open("#{@directory}/control.sock") { true }
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    false
  end

  def test_an_app_that_does_not_load
    command = run_abaca("sleep 0.01 until File.exist?('go')\nraise 'no'", config: CONFIG)
    assert(eventually { listens? })
    assert_equal 0, stats[:requests_count], "while it loads"
    watch = watch_of(command)
    File.write("#{@directory}/go", "")
    assert_equal 1, command.wait.exitstatus
    refute alive?(watch)
    assert_empty Dir.children(@directory).grep(/sock|state/)
  end

  # The socket stays where it is: those who connect meanwhile wait, and nobody is refused.
  def test_a_hot_restart
    command = run_single
    first = watch_of(command)
    place = File.lstat("#{@directory}/control.sock").ino
    command.signal(:USR2)
    answers = 0
    until command.text.scan("Use Ctrl-C").size == 2
      answers += 1 if stats[:abaca]
    end
    assert_operator answers, :>, 0
    assert gone?(first)
    assert_equal place, File.lstat("#{@directory}/control.sock").ino
    assert_equal 200, ask_control("/gc").first
    assert_ends(command, watch_of(command))
  end

  # The watch that ends answers what they ask, and whoever comes then waits for the next one.
  def test_a_hot_restart_with_clients_that_are_connected
    command = run_single
    stream, silent = Array.new(2) { connect_control }
    stream.write(control_request("/events", fields: { "Accept" => "text/event-stream" }))
    assert_match(/ 200 OK/, stream.readpartial(1000))
    command.signal(:USR2)
    stream.read # up to its end
    late = connect_control
    [silent, late].each { |client| client.write(control_request("/stats")) }
    assert_match(/ 200 OK/, silent.read)
    assert_match(/ 200 OK/, late.read)
    assert(eventually { command.text.scan("Use Ctrl-C").size == 2 })
    assert_ends(command, watch_of(command))
  ensure
    [stream, silent, late].each { |client| client&.close }
  end

  def test_a_hot_restart_to_another_place
    command = run_single
    File.write("#{@directory}/settings.rb", CONFIG.sub("control.sock", "other.sock"))
    command.signal(:USR2)
    assert(eventually { command.text.scan("Use Ctrl-C").size == 2 })
    assert_equal %w[other.sock], Dir.children(@directory).grep(/sock/)
    assert_ends(command, watch_of(command))
  end
end
