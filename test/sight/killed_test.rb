# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/sight_case"

# A request is counted before the last bytes of its answer leave: whoever has read that finds it in the counters, also
# after the process was killed.
class KilledTest < Minitest::Test
  include SightCase

  MODES = %w[fiber thread guest:PlainScheduler].freeze
  CLIENTS = 4

  # Answers in one piece, after a wait, and in chunks.
  class App < SightCase::App
    def call(env)
      case env["PATH_INFO"]
      when "/wait" then [200, {}, [Kernel.sleep(0.001).to_s]]
      when "/error" then [500, {}, ["sorry\n"]]
      when "/chunks" then [200, {}, %w[a b].each]
      else [200, {}, ["ok\n"]]
      end
    end
  end

  PATHS = %w[/ /wait /error /chunks].freeze

  MODES.each do |mode|
    define_method("test_no_answer_is_missing_after_a_kill_in_mode_#{mode.tr(':', '_')}") { check_kill(mode) }
    define_method("test_each_answer_is_counted_when_it_is_read_in_mode_#{mode.tr(':', '_')}") { check_each(mode) }
  end

  def test_with_an_access_log
    File.open(File::NULL, "w") do |file|
      check_kill("fiber", log: Abaca::Log.new(file, file), log_requests: true)
    end
  end

  private

  # Connections stay open, so that a plain answer goes out at once.
  def check_kill(mode, **options)
    serve(mode, server_timing: false, **options) do |server|
      answers = Array.new(CLIENTS, 0)
      clients = Array.new(CLIENTS) { |i| Thread.new { ask_on(server, PATHS.rotate(i)) { answers[i] += 1 } } }
      assert eventually { answers.sum > 100 }, mode
      Process.kill(:KILL, server.pid)
      clients.each(&:join)
      assert_counted server.slot, answers.sum, mode
    end
  end

  def check_each(mode)
    serve(mode, server_timing: false) do |server|
      socket = server.connect
      500.times do |i|
        answer(socket, PATHS[i % PATHS.size])
        assert_operator server.slot.totals[:ended], :>=, i + 1, mode
      end
      assert_counted server.slot, 500, mode
      socket.close
    end
  end

  def assert_counted(slot, answers, mode)
    assert_operator slot.totals[:ended], :>=, answers, mode
    assert_operator slot.series.select { |one| one[:kind] == :request }.sum { |one| one[:count] }, :>=, answers, mode
    assert_operator slot.clients.sum { |one| one[:requests] }, :>=, answers, mode
  end

  # Yields whenever it has read an answer to its end.
  def ask_on(server, paths)
    socket = server.connect
    paths.cycle { |path| answer(socket, path) ? yield : break }
  rescue SystemCallError
    flunk "no connection"
  end

  def answer(socket, path)
    socket.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    read(socket)
  rescue SystemCallError
    nil
  end

  def read(socket)
    text = +""
    text << socket.readpartial(4096) until whole?(text)
    text
  rescue EOFError
    nil
  end

  def whole?(text)
    head, body = text.split("\r\n\r\n", 2)
    return false unless body

    length = head[/^content-length: (\d+)/i, 1]
    length ? body.bytesize == length.to_i : body.end_with?("0\r\n\r\n")
  end
end
