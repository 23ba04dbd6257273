# frozen_string_literal: true

require "test_helper"
require "abaca"
require "fileutils"
require "pty"
require "socket"
require "cli/command"
require "support/drill_page"
require "support/shim"
require "support/waits"

# A drill: faults come one after another into a server with two workers, and for each the look that docs/sight.md
# names has to tell the cause. Before the first fault none of the looks may.
class DrillTest < Minitest::Test
  include Command
  include Shim
  include Waits

  CONFIG = <<~RUBY
    port 0
    workers 2
    tag "shop"
    state_path "state"
    activate_control_app "unix://control.sock", auth_token: "secret"
    stdout_redirect "log/out", "log/err", true
    log_requests
    service "http", "127.0.0.1:%<upstream>d"
  RUBY
  # What is asked, and the fault that answers it. A fault yields what has to be in the line that names the cause.
  FAULTS = {
    "Where does time go?" => :waits, "Is the app's pool of connections too small?" => :pool,
    "Which pool is it?" => :pool_by_name, "Is another service slow?" => :upstream, "Who holds the loop?" => :report,
    "Who waits for a lock, and where?" => :lock, "Which worker leaks?" => :leak, "Which client floods?" => :flood,
    "Does the DNS hang?" => :dns, "Does Ruby collect garbage all the time?" => :collections,
    "Is one worker ill, or all?" => :stopped, "Are there no logs any more?" => :full_disk, "What has changed?" => :death
  }.freeze
  # What only /proc tells.
  OF_PROC = %i[leak stopped].freeze
  # What was seen, for `rake drill`.
  SEEN = {} # rubocop:disable Style/MutableConstant
  Minitest.after_run { DrillPage.write(SEEN) if ENV["DRILL_PAGE"] }
  # Seconds for a fault to be seen.
  PATIENCE = 15

  def setup
    super
    @directory = @dir
    @upstream = TCPServer.new("127.0.0.1", 0)
    @asks = []
    @seen = {}
  end

  def teardown
    super
    @asks.each(&:close)
    @upstream.close
  end

  def test_every_question_has_its_fault
    assert_equal FAULTS.keys.sort, DrillPage.questions.map(&:text).sort
  end

  # In parts, so that a busy machine is in time.
  PARTS = 5
  PARTS.times do |part|
    define_method(:"test_each_look_names_its_cause_#{part + 1}") { drill(part) }
  end

  private

  def drill(part)
    questions = DrillPage.questions
    questions = questions.each_slice(questions.size.fdiv(PARTS).ceil).to_a[part]
    questions.reject! { |one| OF_PROC.include?(FAULTS.fetch(one.text)) } unless Abaca::Platform.here.has?(:proc)
    serve
    sleep 2 # what a boot takes is no fault
    healthy = questions.map(&:command).uniq.to_h { |command| [command, look(command)] }
    left = questions.reject { |question| found?(question, healthy) }
    assert_empty left.map(&:text), @seen.values_at(*left).join("\n")
    SEEN.update(@seen)
  end

  def serve
    FileUtils.cp(File.join(__dir__, "drill/config.ru"), @dir)
    FileUtils.mkdir_p(File.join(@dir, "log"))
    file("config/abaca.rb", format(CONFIG, upstream: @upstream.addr[1]))
    with_shim("slow_dns") { start(env: { "LD_PRELOAD" => ENV.fetch("LD_PRELOAD", nil) }) }
    assert eventually { log.scan(/Worker \d .*booted/).size == 2 }, log + @processes[0].output
    @port = Integer(log[/Listening on \w+:\S*:(\d+)$/, 1])
    @workers = log.scan(/Worker (\d) \(PID: (\d+)\) booted/).sort.map { |_, pid| pid.to_i }
  end

  def log = Dir[File.join(@dir, "log/*")].map { |path| File.read(path) }.join

  def found?(question, healthy)
    send(FAULTS.fetch(question.text)) do |cause|
      refute question.named?(healthy.fetch(question.command), cause), "a healthy server, too: #{question.text}"
      eventually(within: PATIENCE) { question.named?(@seen[question] = look(question.command), cause) }
    end
  ensure
    over
  end

  # What an operator sees in a terminal.
  def look(command)
    program, *words = command.split
    words.push("-d", "0.2") if words.first == "top" && !words.include?("-n")
    return run_command(*words).out if words.first == "top"

    text = +""
    PTY.spawn(Command.environment({}), *Command.words(words, program), chdir: @dir) do |out, _, pid|
      loop { text << out.readpartial(65_536) }
    rescue EOFError, Errno::EIO
      Process.wait(pid)
    end
    text
  end

  def ask(path, number = 1, address = "127.0.0.1")
    number.times do
      socket = Socket.tcp("127.0.0.1", @port, address, 0)
      socket.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      @asks << socket
    end
  end

  # All requests end.
  def over
    FileUtils.touch(File.join(@dir, "over"))
    @asks.each { |socket| socket.wait_readable(30) }.each(&:close)
    @asks.clear
    FileUtils.rm_f(File.join(@dir, "over"))
  end

  # A row of `abaca top` in which the block finds that these columns name the cause.
  def column(*names)
    lambda do |line, output|
      lines = output.lines.map { |one| one.delete("*").split }
      heads = lines.find { |one| (names - one).empty? }
      cells = heads ? heads.zip(line.sub(/\A[!>]/, "").split).to_h : {}
      names.all? { |name| cells[name] } && cells.values_at(*names) != names && yield(*cells.values_at(*names))
    end
  end

  # --- the faults ---

  def waits
    ask("/wait", 6)
    yield(/\bsleep [3-6]/)
  end

  # Of 12 requests, 4 have a connection.
  def pool
    ask("/pool", 12)
    yield(column("KIND", "NOW") { |kind, now| kind == "pool" && now.to_i.positive? })
  end

  def pool_by_name
    ask("/pool", 12)
    yield(/ConnectionPool +2 .* [1-9]\d*\s*$/)
  end

  # It takes connections, and does not answer.
  def upstream
    ask("/upstream?#{@upstream.addr[1]}", 3)
    yield(/127\.0\.0\.1:#{@upstream.addr[1]} +3\b/)
  ensure
    @upstream.accept_nonblock(exception: false).close while @upstream.wait_readable(0.2)
  end

  def report
    ask("/report")
    yield(%r{GET /report .*config\.ru:\d+})
  end

  def lock
    ask("/lock", 6)
    yield(/config\.ru:\d+/)
  end

  # One worker gets all of it: the other one is stopped meanwhile.
  def leak
    Process.kill(:STOP, @workers[1])
    20.times { ask("/leak") && sleep(0.2) }
    Process.kill(:CONT, @workers[1])
    yield(column("PID", "MB/H") { |pid, growth| pid.to_i == @workers[0] && growth.to_i > 100 })
  ensure
    Process.kill(:CONT, @workers[1])
  end

  # Connections that send their requests a byte at a time.
  def flood
    flood = Array.new(40) do
      Socket.tcp("127.0.0.1", @port, "127.0.0.9", 0).tap { |socket| socket.write("GET / HTTP/1.1\r\nHo") }
    end
    yield(/\A *127\.0\.0\.9 +40\b/)
  ensure
    flood.each(&:close)
  end

  def dns
    ask("/dns", 2)
    yield(column("KIND", "NOW", "LONGEST") { |kind, now, longest| kind == "dns" && now == "2" && longest != "-" })
  end

  def collections
    ask("/gc", 2)
    # Of the time that it gets: the machine may be busy with others.
    yield(column("GC%", "CPU%") { |share, cpu| share.to_f > 1 && share.to_f * 2 > cpu.to_f })
  end

  def stopped
    Process.kill(:STOP, @workers[1])
    yield(/worker 1 .*process #{@workers[1]} is stopped/)
  ensure
    Process.kill(:CONT, @workers[1])
  end

  def full_disk
    %w[out err].each do |name|
      path = File.join(@dir, "log", name)
      File.unlink(path)
      File.symlink("/dev/full", path)
    end
    run_command("reopen-log", executable: "abacactl")
    3.times { ask("/") && sleep(0.1) }
    yield(/No space left on device/)
  end

  def death
    Process.kill(:KILL, @workers[0])
    yield(/PID: #{@workers[0]}/)
  end
end
