# frozen_string_literal: true

require "test_helper"
require "abaca"
require "stringio"
require "support/process_case"

# What the log says of requests that were answered 503 without the app.
class OverloadRejectionsTest < Minitest::Test
  include ProcessCase

  NONE = { queue_full: 0, queue_timeout: 0, request_timeout: 0, shutdown: 0, no_fiber: 0 }.freeze

  def setup
    super
    @out = StringIO.new
    @log = Abaca::Log.new(@out)
    server = Struct.new(:log, :config).new(@log, Abaca::Config.new({ queue_timeout: 25, max_queue: 7 }))
    @rejections = Abaca::Rejections.new(server)
  end

  # What the log has got by now.
  def said
    assert @log.release(30)
    @out.string.lines(chomp: true)
  end

  def test_each_reason_names_its_setting
    @rejections.look({ queue_full: 4, queue_timeout: 3, request_timeout: 2, shutdown: 9, no_fiber: 1 }, 1.0)
    parts = ["3 had waited for 25 s (queue_timeout)", "4 found 7 others waiting (max_queue)",
             "2 had no time left (request_timeout)", "1 found no memory for a stack, or no thread"]
    assert_match(/\Aabaca: warning: 10 requests were answered 503 without the app since \d\d:\d\d:\d\d: /, said.first)
    assert_includes said.first, ": #{parts.join(", ")} (docs/overload.md"
  end

  def test_a_line_at_once_and_then_one_a_minute
    120.times { |second| @rejections.look({ **NONE, queue_full: 2 * (second + 1) }, second.to_f) }
    @rejections.look({ **NONE, queue_full: 240 }, 120.0)
    assert_equal %w[2 120 118], said.map { |line| line[/abaca: warning: (\d+) requests/, 1] }
  end

  def test_nothing_is_said_without_any
    @rejections.look(NONE, 1.0)
    @rejections.look({ **NONE, shutdown: 5 }, 100.0)
    assert_empty said
  end

  def test_a_server_tells_its_log
    command = run_abaca("run(->(_) { sleep 0.5; [200, {}, []] })\n", config: "max_fibers 1\nmax_queue 0\n")
    clients = Array.new(2) { connect(command.port).write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n") }
    assert_equal [200, 503], clients.map { |client| client.read.status }.sort
    command.wait_for(/warning: 1 request was answered 503 without the app since [\d:]+: 1 found 0 others waiting/)
  end
end
