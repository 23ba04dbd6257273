# frozen_string_literal: true

require "test_helper"
require "abaca"
require "stringio"

# The log: what lines look like, and that no reader of it can hold up the server.
class LogTest < Minitest::Test
  ENV_OF_A_REQUEST = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "b=c",
                       "SERVER_PROTOCOL" => "HTTP/1.1", "REMOTE_ADDR" => "127.0.0.1" }.freeze

  # Everything that the block logs.
  def logged(**options)
    io = StringIO.new
    log = Abaca::Log.new(io, **options)
    yield log
    assert log.release(30), "the log was not written"
    io.string
  end

  def test_app_error_with_backtrace_and_causes
    error = begin
      begin
        raise "inner"
      rescue StandardError
        raise ArgumentError, "outer\nsecond line"
      end
    rescue ArgumentError => e
      e
    end
    text = logged { |log| log.app_error(error, ENV_OF_A_REQUEST) }

    assert_match(
      %r{\Aabaca: error in the app: ArgumentError: outer\n      second line \(GET /a\)\n    .*log_test\.rb:\d+}, text
    )
    assert_match(/^  caused by RuntimeError: inner\n    .*log_test\.rb:\d+/, text)
    assert_match(/RuntimeError: x\n\z/, logged { |log| log.app_error(RuntimeError.new("x"), nil) })
  end

  def test_app_error_whose_message_raises
    error = Class.new(StandardError) { def message = raise("no message") }.new
    error.set_backtrace(["app.rb:1"])

    assert_match(/error in the app: #<Class:.*> \(its report failed: RuntimeError\)/, logged do |log|
      log.app_error(error, nil)
    end)
    assert_match(%r{failed: RuntimeError\) \(GET /a\)\n    app.rb:1$}, logged do |log|
      log.app_error(error, ENV_OF_A_REQUEST)
    end)
  end

  def test_levels
    lines = lambda do |level|
      logged(level:) do |log|
        log.debug("d")
        log.info("i")
        log.warn("w")
        log.error("e")
      end
    end

    assert_equal "% d\ni\nabaca: warning: w\nabaca: e\n", lines.call(:debug)
    assert_equal "i\nabaca: warning: w\nabaca: e\n", lines.call(:info)
    assert_equal "abaca: e\n", lines.call(:error)
    assert_raises(Abaca::ConfigError) { Abaca::Log.new(level: :loud) }
  end

  def test_formatter
    assert_equal "<i>\n", logged(formatter: ->(line) { "<#{line}>" }) { |log| log.info("i") }
    assert_match(/formatter failed: RuntimeError/, logged(formatter: ->(_) { raise }) { |log| log.info("i") })
  end

  def test_a_reader_that_does_not_read_holds_up_nobody
    reader, writer = IO.pipe
    log = Abaca::Log.new(writer)
    line = "x" * 1000
    20_000.times { log.info(line) } # whoever waits for the reader waits for ever
    assert_operator log.dropped, :>, 5000
    refute log.flush(0.05)
    draining = Thread.new { reader.read }
    assert log.release(30)
    writer.close
    assert_match(/abaca: \d+ log lines were dropped/, draining.value)
  ensure
    reader&.close
  end

  def test_a_reader_that_has_gone_does_no_harm
    reader, writer = IO.pipe
    reader.close
    log = Abaca::Log.new(writer)
    log.info("nobody hears this")

    assert log.release(30)
    assert_equal 1, log.dropped
  ensure
    writer&.close
  end

  # Two of them would share the lines, and #release would wait for one and end the other.
  def test_threads_that_begin_together_get_one_writer
    before = Thread.list
    logs = Array.new(30) do
      Abaca::Log.new(StringIO.new).tap do |log|
        gate = Queue.new
        threads = Array.new(8) { Thread.new { gate.pop || log.info("x") } }
        Thread.pass until gate.num_waiting == 8
        gate.close
        threads.each(&:join)
      end
    end
    assert_equal 30, (Thread.list - before).size
    logs.each { |log| assert log.release(30) }
    assert_empty Thread.list - before
  end

  def test_lines_may_come_from_many_threads_and_from_a_trap_handler
    reader, writer = IO.pipe
    log = Abaca::Log.new(writer)
    trapped = false
    previous = Signal.trap("WINCH") { trapped = log.info("trapped") || true }
    Array.new(4) { |number| Thread.new { 50.times { |time| log.info("#{number}:#{time}") } } }.each(&:join)
    Process.kill(:WINCH, Process.pid)
    assert(eventually { trapped })
    assert log.release(30)
    writer.close
    lines = reader.read.lines(chomp: true)

    assert_equal 201, lines.size
    assert_includes lines, "trapped"
    4.times { |number| assert_equal (0...50).to_a, lines.grep(/\A#{number}:/).map { |line| line[2..].to_i } }
  ensure
    Signal.trap("WINCH", previous || "DEFAULT")
    reader&.close
  end

  def test_a_line_that_comes_while_the_writer_ends_is_written
    moments = (1..).find { |moment| !line_at(moment) }
    assert_operator moments, :>, 5
  end

  # Logs at the writer's step number `moment` after the release. Returns false if the writer takes fewer steps.
  def line_at(moment)
    io = StringIO.new
    log = Abaca::Log.new(io)
    log.info("soon")
    assert log.flush(30)
    steps = 0
    trace = TracePoint.new(:line, :return) do |point|
      next unless point.path.end_with?("log/writer.rb") && Thread.current.name == "abaca log"

      log.info("late") if (steps += 1) == moment
    end
    trace.enable
    assert log.release(30), "step #{moment}"
    trace.disable
    return false if steps < moment

    assert log.release(30), "step #{moment}"
    assert_equal "soon\nlate\n", io.string, "step #{moment}"
  ensure
    trace.disable
  end

  # Whoever waits for the release looks at each step of the writer's end.
  def test_a_writer_that_ends_gets_no_successor
    before = Thread.list
    log = Abaca::Log.new(StringIO.new)
    log.info("x")
    trace = TracePoint.new(:line) do |point|
      sleep 0.005 if point.path.end_with?("log/writer.rb") && Thread.current.name == "abaca log"
    end
    trace.enable
    assert log.release(30)
    assert_empty Thread.list - before
  ensure
    trace&.disable
  end

  def test_lines_after_the_release_are_written_too
    io = StringIO.new
    log = Abaca::Log.new(io)
    2.times do |time|
      log.info(time.to_s)
      assert log.release(30)
    end

    assert_equal "0\n1\n", io.string
  end
end
