# frozen_string_literal: true

require "test_helper"
require "support/server_case"
require "English"
require "json"
require "tmpdir"

# Who writes the lines: full disks, pipes that nobody reads, processes that share an output.
class LogWriterTest < Minitest::Test
  include ServerCase

  # Takes a part of the next write, and fails with the rest of it.
  module Torn
    attr_accessor :room

    def syswrite(text)
      return super unless room
      raise Errno::ENOSPC if room.zero?

      super(text.byteslice(0, room)).tap { |written| self.room -= written }
    end
  end

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
  end

  def teardown
    super
    FileUtils.remove_entry(@dir)
  end

  def path(name = "log") = File.join(@dir, name)

  # `rails server` prints before the server is made, into a buffer if its output is no terminal.
  def test_what_was_printed_before_comes_first
    File.open(path, "w") do |out|
      out.sync = false
      out.write("Booting\n")
      log = Abaca::Log.new(out, StringIO.new)
      log.info("Listening")
      assert_output("", "") { assert log.release(30) }
      assert_equal "Booting\nListening\n", File.read(path)
    end
  end

  def test_a_full_disk_is_reported_once_and_lines_come_again_when_there_is_room
    File.open("/dev/full", "a") do |out|
      err = StringIO.new
      log = Abaca::Log.new(out, err)
      told = []
      log.on_loss do |error|
        told << error.class
        raise "what it raises is dropped"
      end
      3.times do
        log.info("lost\ntoo")
        assert log.flush(30)
      end
      assert_equal 6, log.dropped
      out.reopen(path, "a")
      log.info("after")
      assert log.release(30)
      assert_equal "after\nabaca: 6 log lines were dropped\n", File.read(path)
      assert_match(/\Aabaca: the log cannot be written, and lines are dropped: No space left .*\n\z/, err.string)
      assert_equal [Errno::ENOSPC], told
      assert_equal 6, log.dropped
    end
  end

  # Only what waits counts against the memory for lines.
  def test_more_lines_than_may_wait_at_once
    File.open(path, "a") do |out|
      log = Abaca::Log.new(out)
      line = "x" * (1 << 20)
      rounds = (Abaca::Log::Writer::MEMORY / line.bytesize) + 2
      rounds.times do
        log.info(line)
        assert log.flush(30)
      end
      assert_equal [0, rounds * (line.bytesize + 1)], [log.dropped, out.size]
      assert log.release(30)
    end
  end

  def test_the_report_of_dropped_lines_as_json
    File.open("/dev/full", "a") do |out|
      log = Abaca::Log.new(out, out, format: :json)
      log.info("lost")
      assert log.flush(30)
      out.reopen(path, "a")
      log.info("after")
      assert log.release(30)
    end
    assert_equal ["after", "1 log lines were dropped"],
                 File.readlines(path).map { |line| JSON.parse(line).fetch("message") }
  end

  def test_a_line_that_a_full_disk_has_cut_ends_there
    File.open(path, "a") do |out|
      out.extend(Torn).room = 8
      log = Abaca::Log.new(out)
      log.info("first")
      log.info("second")
      log.info("third")
      assert log.flush(30)
      out.room = nil
      log.info("fourth")
      assert log.release(30)
    end
    lines = File.readlines(path, chomp: true)
    assert_equal "first", lines[0]
    assert_equal "se", lines[1]
    assert_equal ["fourth", "abaca: 2 log lines were dropped"], lines.last(2)
  end

  def test_an_object_that_fails_and_works_again
    object = Class.new(StringIO) do
      attr_accessor :fails

      def write(*) = fails ? raise("no") : super
    end.new
    object.fails = true
    log = Abaca::Log.new(object)
    log.info("lost")
    assert log.flush(30)
    object.fails = false
    log.info("caf\u00e9 \xFF")
    assert log.release(30)
    assert_equal "caf\u00e9 \\xFF\nabaca: 1 log lines were dropped\n", object.string
  end

  # syswrite would go past it.
  def test_an_io_with_a_write_of_its_own
    File.open(path, "a") do |out|
      def out.write(text) = super("<#{text}>")
      log = Abaca::Log.new(out)
      log.info("one")
      assert log.release(30)
    end
    assert_equal "<one\n>", File.read(path)
  end

  def test_an_io_with_an_encoding
    File.open(path, "a", encoding: "UTF-8") do |out|
      log = Abaca::Log.new(out)
      log.info("caf\u00e9")
      assert log.release(30)
    end
    assert_equal "caf\u00e9\n", File.read(path)
  end

  def test_lines_that_wait_take_no_more_memory_than_they_may
    reader, writer = IO.pipe
    log = Abaca::Log.new(writer)
    log.info("x" * 70_000) # fills the pipe
    nothing_waits = -> { log.instance_variable_get(:@out).instance_variable_get(:@queue).empty? }
    assert eventually(&nothing_waits)
    3.times { log.info("y" * 7_000_000) }
    assert_equal 1, log.dropped
    draining = Thread.new { reader.read }
    assert log.release(30)
    writer.close
    *others, report = draining.value.lines(chomp: true).sort_by { |line| line[/abaca/].to_s }
    assert_equal "abaca: 1 log lines were dropped", report
    assert_equal [70_000, 7_000_000, 7_000_000], others.map(&:size)
  ensure
    [reader, writer].each(&:close)
  end

  # Two processes that write at once: nothing is lost, and no line has a part of another one in it.
  def assert_lines_stay_whole(io, lines)
    log = Abaca::Log.new(io, pid: true)
    log.info("begun")
    assert log.flush(30)
    child = fork { exit!(burst(log) && log.dropped.zero?) }
    assert burst(log)
    assert Process.wait2(child).last.success?
    log.release(30)
    io.close
    found = lines.call.group_by { |line| line[/\A\[(\d+)\] /, 1].to_i }
    assert_equal [Process.pid, child].sort, found.keys.sort
    found.each_value { |all| all.each { |line| assert_match(/\A\[\d+\] (begun|(\d+) (x*) \2)\z/, line) } }
    assert_equal [BURST + 1, BURST], [found[Process.pid].size, found[child].size]
  end

  BURST = 1500

  def burst(log)
    BURST.times { |number| log.info("#{number} #{'x' * (number * 7 % 900)} #{number}") }
    log.flush(30)
  end

  def test_processes_that_share_a_pipe
    reader, writer = IO.pipe
    reading = Thread.new { reader.read }
    assert_lines_stay_whole(writer, -> { reading.value.lines(chomp: true) })
  ensure
    reader.close
  end

  def test_processes_that_share_a_file
    assert_lines_stay_whole(File.open(path, "a"), -> { File.readlines(path, chomp: true) })
  end

  # The pipe of the parent's lines is full when the child begins: it has its own queue, and does not repeat them.
  def test_a_child_writes_its_own_lines_only
    reader, writer = IO.pipe
    log = Abaca::Log.new(writer)
    log.info("x" * 70_000)
    log.info("parent")
    # A part of the long line is written, of which the child knows nothing either.
    assert(eventually { log.instance_variable_get(:@out).instance_variable_get(:@sink).instance_variable_get(:@torn) })
    other = path
    child = fork do
      writer.reopen(other, "a")
      log.info("child")
      exit!(log.release(30) && log.dropped.zero?)
    end
    assert Process.wait2(child).last.success?
    assert_equal "child\n", File.read(other)
    draining = Thread.new { reader.read }
    assert log.release(30)
    writer.close
    first, *others = draining.value.lines(chomp: true)
    assert_equal [70_000, ["parent"]], [first.size, others]
  ensure
    [reader, writer].each(&:close)
  end

  # Ruby waits for each thread at the end of a process, and ends only those that were there when it began.
  def test_lines_from_the_end_of_a_process
    pid = spawn(RbConfig.ruby, *$LOAD_PATH.map { |folder| "-I#{folder}" }, "-e", <<~RUBY, out: path)
      require "abaca"
      log = Abaca::Log.new($stdout)
      trap("USR1") { log.info("late") }
      Thread.new do
        log.info("first")
        sleep
      ensure
        Process.kill(:USR1, Process.pid)
        sleep 0.3 # until the handler has run
      end
      sleep 0.01 until log.flush && File.size?(#{path.dump})
      log.close
      log.info("second")
    RUBY
    assert eventually { Process.wait(pid, Process::WNOHANG) }
    pid = nil
    assert_predicate $CHILD_STATUS, :success?
    assert_equal %w[first second late], File.readlines(path, chomp: true)
  ensure
    Process.kill(:KILL, pid) && Process.wait(pid) if pid
  end

  def test_a_closed_log_waits_for_no_reader
    reader, writer = IO.pipe
    log = Abaca::Log.new(writer)
    log.info("first")
    assert log.close(30)
    assert_equal "first\n", reader.readpartial(100)
    writer.write_nonblock("x" * 1_000_000)
    log.info("second")
    assert_equal 1, log.dropped
    reader.readpartial(1_000_000)
    log.info("third")
    assert_match(/\Athird\n.*1 log lines were dropped/m, reader.readpartial(1_000_000))
  ensure
    [reader, writer].each(&:close)
  end

  def test_requests_go_on_when_nobody_reads_the_log
    reader, writer = IO.pipe
    running = serve(lint: false, log_requests: true, log: Abaca::Log.new(writer), max_requests_per_connection: 100_000)
    client = connect(running)
    requests = 12_000
    sending = Thread.new { (requests / 100).times { client.write(GET * 100) } }
    requests.times { assert_equal 200, client.read.status }
    sending.join
    dropped = running.server.stats.dig(:log, :dropped)
    assert_operator dropped, :>, 0
    draining = Thread.new { reader.read }
    assert running.server.log.flush(30)
    running.stop
    writer.close
    reports, lines = draining.value.lines.partition { |line| line.start_with?("abaca: ") }
    assert_equal requests - dropped, lines.size
    assert_equal dropped, reports.sum { |line| line[/\Aabaca: (\d+) log lines were dropped\n\z/, 1].to_i }
  ensure
    [reader, writer].each(&:close)
  end
end
