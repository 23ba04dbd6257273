# frozen_string_literal: true

require "test_helper"
require "abaca"
require "io/wait"
require "socket"
require "support/process_case"
require "support/waits"

# What the service tells systemd, for which the test stands in.
class SystemdTest < Minitest::Test
  include ProcessCase
  include Waits

  APP = <<~RUBY
    run(lambda do |env|
      File.write("begun", "") && (nil until File.exist?("over")) if env["PATH_INFO"] == "/stall"
      [200, { "content-type" => "text/plain" }, ["hello"]]
    end)
  RUBY
  REQUEST = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
  STALLING = "GET /stall HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
  SECONDS = 40

  def setup
    super
    @systemd = Socket.new(:UNIX, :DGRAM)
    @told = +""
  end

  def teardown
    @systemd.close
    super
  end

  # The name is abstract, and the restart comes from a file.
  def test_messages_of_a_life
    name = "abaca-test-#{Process.pid}"
    @systemd.bind(Addrinfo.unix("\0#{name}"))
    Dir.mkdir("#{@directory}/tmp")
    server = run_abaca(APP, config: "plugin :tmp_restart", env: { "NOTIFY_SOCKET" => "@#{name}" })
    await(/^READY=1$/)
    await(/^STATUS=0 connections, 0 requests in the app, 0 waiting, 0 so far, 0 rejected$/)
    File.write("#{@directory}/tmp/restart.txt", "")
    await(/^RELOADING=1\nMONOTONIC_USEC=\d+$.*^READY=1$/m)
    server.wait_for(/Inherited/)
    broken_restart(server)
    server.signal(:TERM)
    await(/^STOPPING=1$/)

    assert_equal 0, server.wait.exitstatus
    refute_match(/not run|WATCHDOG/, server.text + @told)
  end

  def test_the_watchdog_of_a_loop_that_stalls
    server = run_abaca(APP, config: "spare_loops 0", env: watched)
    await(/^WATCHDOG=1$/)
    client = connect(server.port).write(STALLING)
    assert(eventually { File.exist?("#{@directory}/begun") })
    waiting = connect(server.port).write(REQUEST)
    await(/^STATUS=does not serve$/)
    @told.clear
    await(/^STATUS=does not serve$/)
    refute_match(/WATCHDOG/, @told)
    File.write("#{@directory}/over", "")
    await(/^WATCHDOG=1$/)

    assert_equal %w[hello hello], [client, waiting].map { |one| one.read.body }
  end

  # Twice in the time after which systemd kills the service, and at least once in five seconds.
  def test_how_often_the_watchdog_is_fed
    env = { "NOTIFY_SOCKET" => "#{@directory}/gone" }
    pauses = [nil, "6000000", "60000000"].map do |interval|
      slept = Queue.new
      one = notifier(Abaca::Log.new(StringIO.new), env.merge({ "WATCHDOG_USEC" => interval }.compact))
      one.define_singleton_method(:sleep) { |seconds| slept.push(seconds) && raise(StopIteration) }
      one.watch { "serves" }
      slept.pop
    end
    assert_equal [5.0, 3.0, 5.0], pauses
  end

  # Each look comes ten seconds after the last one.
  def test_what_counts_as_serving
    figures = { waiting: 0, held: 0, for_thread: 0, in_app: 1, requests: 7 }
    slot = Struct.new(:figures, :beat_age).new(figures, 0.5)
    time = 0
    liveness = Abaca::Launcher::Liveness.new(slot, 5, clock: -> { time += 10 })
    serves = ->(**news) { figures.update(news) && liveness.within?(6) }

    assert_equal [true, true], [serves[], serves[waiting: 1, requests: 8]]
    refute serves[] # one waits, there is room, and none was taken on
    assert serves[requests: 9]
    assert serves[held: 1] # by a pool of the app's
    assert serves[held: 0, for_thread: 1]
    assert serves[for_thread: 0, in_app: 5] # no room
    refute serves[in_app: 4]
    assert serves[waiting: 0]
    slot.beat_age = 7
    refute serves[]
    slot.beat_age = 5
    assert serves[]
    time -= 10
    slot.beat_age = 10_000 # the page is damaged: it was 5 a moment before
    assert serves[]
  end

  def test_the_watch_of_a_cluster
    worker = Struct.new(:serves, :silence) { alias_method :serves?, :serves }
    turns, hangs, boots = [[true, 0.5], [true, 9.0], [false, nil]].map { |values| worker.new(*values) }
    workers = Struct.new(:active)
    watch = ->(*active, pause: 5) { Abaca::Launcher::Cluster::Watch.new(workers.new(active), pause).within?(3) }

    assert_equal [true, false, true, true], [watch[turns], watch[hangs, turns], watch[turns, boots], watch[boots]]
    refute watch[turns, pause: -4] # as if the master had not turned for more than a second
  end

  def test_skipped_and_without_a_listener
    out = StringIO.new
    log = Abaca::Log.new(out, level: :debug)
    env = { "NOTIFY_SOCKET" => "#{@directory}/gone", "WATCHDOG_USEC" => "1000", "WATCHDOG_PID" => "1" }
    skipped = %w[PUMA_SKIP_SYSTEMD ABACA_SKIP_SYSTEMD].map { |name| notifier(log, env.merge(name => "1")) }
    skipped << notifier(log, {}) << notifier(log, { "NOTIFY_SOCKET" => "/#{'x' * 200}" })
    alone = notifier(log, env)
    (skipped + [alone]).each(&:ready)

    assert_equal [false, false, false, false, true, false], [*skipped, alone].map(&:on?) << alone.watchdog?
    assert log.flush
    assert_equal 1, out.string.scan("systemd does not listen: No such file").size
    assert_match(/NOTIFY_SOCKET=.* is of no use: too long/, out.string)
  end

  private

  def notifier(log, env) = Abaca::Launcher::Systemd.new(log, env:)

  # Pings come each second, and stop when the engine has not turned for three.
  def watched
    path = "#{@directory}/notify"
    @systemd.bind(Addrinfo.unix(path))
    { "NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => "2000000" }
  end

  def broken_restart(server)
    @told.clear
    File.write("#{@directory}/config.ru", "raise 'broken'")
    server.signal(:USR2)
    await(/^RELOADING=1$.*^READY=1$/m)
    server.wait_for(/this program serves on/)
  end

  # Reads until what was told since the last match matches.
  def await(pattern)
    deadline = now + SECONDS
    until (match = pattern.match(@told))
      left = deadline - now
      raise "no #{pattern.inspect} in:\n#{@told}" unless left.positive? && @systemd.wait_readable(left)

      @told << @systemd.recv(4096) << "\n"
    end
    @told = match.post_match
    true
  end
end
