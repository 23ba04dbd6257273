# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/process_case"
require "support/waits"

# USR2: the program is executed anew in the same process, and no request is lost, though each computes and they saturate
# the server.
class HotRestartTest < Minitest::Test
  include ProcessCase
  include Waits

  # What it answers is read when it is loaded.
  APP = <<~RUBY
    version = File.read("version")
    raise "the new code is broken" if version == "broken"
    raise "it boots only once" if version == "once" && File.exist?("loaded")

    File.write("loaded", "") if version == "once"
    compute = lambda do
      limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.006
      nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
    end
    run ->(env) { compute.call; [200, { "content-type" => "text/plain" }, [version, " ", Process.pid.to_s, " ", ENV.fetch("HOOK", "-")]] }
  RUBY
  REQUEST = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  CLOSING = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"

  # A client that asks again and again, and notes what goes wrong.
  class Asking
    attr_reader :answers, :failures

    def initialize(port, keep:)
      @port = port
      @keep = keep
      @answers = []
      @failures = []
      @thread = Thread.new { ask until @ended }
    end

    def finish
      @ended = true
      @thread.join
      @client&.close
    end

    private

    def ask
      reused = !@client.nil?
      @client ||= Wire::Client.new(@port)
      response = @client.call(@keep ? REQUEST : CLOSING)
      response.status == 200 ? @answers << response.body : @failures << response.status
      drop if response.close?
    rescue StandardError => e
      # A server may close a connection between two requests (RFC 9112 9.3.1): the client then opens another.
      @failures << e unless reused && @client.parser.pending.zero?
      drop
    end

    def drop
      @client&.close
      @client = nil
    end
  end

  # The old program does not wait for shutdown_delay, as it would at a stop.
  def test_no_request_is_lost_and_the_process_stays
    server = boot("1", "shutdown_delay 600")
    clients = [true, true, false].map { |keep| Asking.new(server.port, keep:) }
    %w[2 3].each do |version|
      version!(version)
      restart(server)
      assert(eventually { clients.all? { |client| client.answers.last == "#{version} #{server.pid} -" } })
    end
    clients.each(&:finish)

    assert_empty clients.flat_map(&:failures)
    assert_equal 2, server.text.scan(/^\* Inherited tcp:/).size
  end

  def test_workers_and_their_master
    server = boot("1", "workers 2\npreload_app! false")
    clients = [true, false].map { |keep| Asking.new(server.port, keep:) }
    version!("2")
    restart(server)
    assert(eventually { clients.all? { |client| client.answers.last.start_with?("2 ") } })
    clients.each(&:finish)

    assert_empty clients.flat_map(&:failures)
    assert_equal 2, eventually { children(server).size == 2 && 2 }
    refute_match(/unknown child/, server.text)
    assert_ends(server)
  end

  # What was before the deploy is still there, and where it was.
  def test_history_events_and_kept_requests_go_on
    ["", "workers 2"].each do |settings|
      server = boot("1", "slow_after 0.001\n#{settings}")
      ask(server)
      with_page(server) do |page|
        assert(eventually { page.kept.any? && page.history(:seconds).sum { |one| one[:requests] } == 1 })
      end
      before = remembered(server)
      version!("2")
      File.write("#{@directory}/REVISION", "3f2a9c1\n")
      restart(server)
      File.delete("#{@directory}/REVISION")
      remembered(server).zip(before) { |new, old| assert_empty old - new }
      with_page(server) { |page| assert_equal 0, page.sums[:requests] }
      assert(eventually { marks(server) == ["restart, revision 3f2a9c1"] })
      refute_match(/history/, server.text)
      assert_ends(server)
    end
  end

  def test_history_of_another_layout_is_dropped
    need_platform(:proc)
    server = boot("1")
    File.open(Abaca::Page.place(server.pid), "r+b") { |file| file.pwrite([99].pack("L"), 8) }
    version!("2")
    restart(server)
    assert_equal "2 #{server.pid} -", ask(server)
    assert_equal 1, server.text.scan(/^\* The history of the last program is dropped: the page has layout 99, /).size
    assert(eventually { marks(server) == ["restart"] })
    assert_ends(server)
  end

  def test_a_new_program_that_does_not_boot
    server = boot("1")
    version!("broken")
    server.signal(:USR2)
    server.wait_for(/the restart failed: the new program ended before it was ready .*; this program serves on/)

    assert_match(/cannot load config.ru: the new code is broken/, server.text)
    assert_equal "1 #{server.pid} -", ask(server)
    version!("2")
    restart(server)
    assert_equal "2 #{server.pid} -", ask(server)
    assert_ends(server)
  end

  # Nor does it end when it is told to. Nothing is left of it.
  def test_a_new_program_that_hangs
    server = boot("1", "restart_timeout 2")
    app("trap('TERM', 'IGNORE')\nsleep")
    server.signal(:USR2)
    server.wait_for(/the restart failed: the new program is not ready after 2(?:\.0)? s; this program serves on/)

    assert_empty children(server)
    assert_equal "1 #{server.pid} -", ask(server)
    assert_ends(server)
  end

  # The stand-in does not outlive the process that it stands in for.
  def test_a_new_program_that_boots_in_the_stand_in_only
    path = "#{@directory}/s"
    server = boot_at("bind 'unix://#{path}'")
    version!("once")
    server.signal(:USR2)

    assert_equal 1, server.wait.exitstatus
    assert(eventually { !alive?(stand_in(server)) })
    refute_path_exists path
  end

  def test_changed_places_to_listen_at
    old, kept, new = %w[old kept new].map { |name| "#{@directory}/#{name}" }
    server = boot_at("bind 'unix://#{old}'\nbind 'unix://#{kept}?mode=600'")
    settings!("bind 'unix://#{kept}?mode=660'\nbind 'unix://#{new}'")
    version!("2")
    inode = File.stat(kept).ino
    restart(server)

    refute_path_exists old
    assert_equal [inode, 0o660], [File.stat(kept).ino, File.stat(kept).mode & 0o777]
    [kept, new].each { |path| assert_match(/\r\n\r\n2 #{server.pid} -\z/, ask_at(path)) }
    assert_match(%r{^\* Inherited unix://#{kept}$}, server.text)
    assert_ends(server)
    [kept, new].each { |path| refute_path_exists path }
  end

  # Each of them is there until the new one is; relative ones begin in the old folder.
  def test_changed_pidfile_and_state_file
    server = boot_at("port 0, '127.0.0.1'\npidfile 'old.pid'\nstate_path 'old.state'")
    assert_equal server.pid, Integer(File.read("#{@directory}/old.pid"))
    FileUtils.mkdir("#{@directory}/run")
    version!("2")
    settings!("port 0, '127.0.0.1'\npidfile 'run/pid'\nstate_path '#{@directory}/run/state'")
    restart(server)
    assert_equal [[], server.pid], [Dir["#{@directory}/old.*"], Integer(File.read("#{@directory}/run/pid"))]
    assert_match(/^pid: #{server.pid}$/, File.read("#{@directory}/run/state"))
    settings!("port 0, '127.0.0.1'")
    restart(server)
    assert_empty Dir.children("#{@directory}/run")
    assert_ends(server)
  end

  # Files of an app that is deployed by changing a link, and a hook that has the last word on the environment.
  def test_link_environment_and_hook
    %w[one two].each { |release| release(release) }
    File.symlink("one", "#{@directory}/current")
    server = start_abaca("-b", "tcp://127.0.0.1:0", "-C", "settings.rb", chdir: "#{@directory}/current",
                                                                         env: { "PWD" => "#{@directory}/current" })
    assert_equal "one #{server.pid} config", ask(server)
    File.unlink("#{@directory}/current")
    File.symlink("two", "#{@directory}/current")
    restart(server)

    assert_equal "two #{server.pid} Abaca::Launcher", ask(server)
    assert_equal 2, server.text.scan(/^booted$/).size
    assert_ends(server)
  end

  def test_without_a_stand_in
    server = boot("1", "restart_overlap false")
    version!("2")
    server.signal(:USR2)
    server.wait_for(/Inherited.*Use Ctrl-C/m)

    assert_equal "2 #{server.pid} -", ask(server)
    refute_match(/stand-in/, server.text)
    assert_ends(server)
  end

  def test_a_stop_while_the_new_program_boots
    server = boot("1")
    app("sleep 60\n#{APP}")
    server.signal(:USR2)
    child = eventually { children(server).first }
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
    assert(eventually { !alive?(child) })
  end

  # The last moment for it is in the hooks.
  def test_a_stop_before_the_new_program_is_executed
    server = boot("1", <<~RUBY)
      before_restart { Process.kill(:TERM, Process.pid) && sleep(0.01) }
      after_stopped { puts "stopped" }
    RUBY
    server.signal(:USR2)

    assert_equal 0, server.wait.exitstatus
    assert_match(/^stopped$/, server.text)
    assert(eventually { !alive?(stand_in(server)) })
  end

  private

  def with_page(server)
    page = Abaca::Page.of(server.pid)
    yield page
  ensure
    page&.close
  end

  # Kept requests, events, and seconds of the history.
  def remembered(server)
    with_page(server) do |page|
      [page.kept.map { |one| one.values_at(:number, :path, :age) },
       page.events.map { |one| one.values_at(:number, :kind, :pid) },
       page.history(:seconds).map { |one| one[:tick] }]
    end
  end

  def marks(server)
    with_page(server) { |page| page.events.filter_map { |event| event[:text] if event[:kind] == :mark } }
  end

  def boot(version, config = "")
    version!(version)
    run_abaca(APP, config:).tap(&:port)
  end

  def boot_at(binds)
    version!("1")
    app(APP)
    settings!(binds)
    start_abaca("-C", "settings.rb").tap { |server| server.wait_for(/Use Ctrl-C/) }
  end

  def release(name)
    Dir.mkdir("#{@directory}/#{name}")
    version!(name, name)
    app(APP, name)
    settings!("before_restart { |launcher| ENV['HOOK'] = launcher.class.name }\n" \
              "after_booted { puts 'booted' }\nENV['HOOK'] ||= 'config'", name)
  end

  def version!(text, folder = ".") = File.write(File.join(@directory, folder, "version"), text)

  def settings!(text, folder = ".") = File.write(File.join(@directory, folder, "settings.rb"), text)

  def app(text, folder = ".") = File.write(File.join(@directory, folder, "config.ru"), text)

  # Until the stand-in has ended, too.
  def restart(server)
    before = server.text.scan("Use Ctrl-C").size
    server.signal(:USR2)
    assert eventually { server.text.scan("Use Ctrl-C").size > before }, server.text
    assert eventually { !alive?(stand_in(server)) }, server.text
  end

  def ask(server) = connect(server.port).call(CLOSING).body

  def ask_at(path)
    UNIXSocket.open(path) do |socket|
      socket.write(CLOSING)
      socket.read
    end
  end

  def assert_ends(server)
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus, server.text
  end

  # It may say so later than the new program that it has booted.
  def stand_in(server)
    found = eventually { server.text.scan(/stand-in serves during the restart, PID: (\d+)/).last } or flunk server.text
    Integer(found.first)
  end

  def children(server)
    Dir["/proc/#{server.pid}/task/*/children"].flat_map { |path| File.read(path).split }.map { |pid| Integer(pid) }
  end

  def alive?(pid)
    Process.kill(0, pid) && File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] != "Z"
  rescue SystemCallError
    false
  end
end
