# frozen_string_literal: true

require "test_helper"
require "cli/command"
require "support/wire"
require "json"

# HUP while requests are logged: the files are moved away again and again, and every line is in one of them, whole.
class LogRotationTest < Minitest::Test
  include Command

  ROUNDS = 12
  LINES = 300 # between two rotations

  def test_no_line_is_lost_when_files_are_moved
    log = File.join(@dir, "log")
    file("config.ru", 'run ->(_env) { [200, { "content-type" => "text/plain" }, ["hello\n"]] }')
    file("config/abaca.rb", "port 0\nmax_requests_per_connection 1_000_000\nstdout_redirect 'log', 'log.err'\n")
    server = start("-v", "--access-log-format", "json", "--log-format", "json")
    assert(eventually(within: SECONDS_TO_BOOT) { File.exist?(log) && File.read(log).include?("Use Ctrl-C") })
    client = Wire::Client.new(Integer(File.read(log)[/Listening on \S+:(\d+)/, 1]))
    sent = rotate(server, log) { |number| send_requests(client, number) }
    client.close
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus
    files = Dir["#{log}*"] - ["#{log}.err"]
    assert_equal ROUNDS + 1, files.size
    lines = files.flat_map { |path| File.readlines(path) }.map { |line| JSON.parse(line) }
    assert_equal (0...sent).to_a, lines.filter_map { |line| line["url.query"]&.to_i }.sort
    assert_empty File.read("#{log}.err")
  end

  # Requests run all the time; returns their number.
  def rotate(server, log)
    done = false
    sent = 0
    load = Thread.new { sent = yield(sent) until done }
    ROUNDS.times do |round|
      before = sent
      assert(eventually { sent > before + LINES })
      File.rename(log, "#{log}.#{round}")
      server.signal(:HUP)
      assert(eventually { File.size?(log) })
    end
    done = true
    load.value
    sent
  end

  def send_requests(client, number)
    numbers = number...(number + 25)
    client.write(numbers.map { |one| "GET /?#{one} HTTP/1.1\r\nHost: a.test\r\n\r\n" }.join)
    numbers.each { assert_equal 200, client.read.status }
    numbers.end
  end
end
