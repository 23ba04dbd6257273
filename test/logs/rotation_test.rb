# frozen_string_literal: true

require "test_helper"
require "cli/command"
require "support/wire"
require "json"

# HUP while requests are logged: the files are moved away again and again, and every line is in one of them, whole.
class LogRotationTest < Minitest::Test
  include Command

  ROUNDS = 8
  LINES = 200 # between two rotations

  def setup
    super
    @log = File.join(@dir, "log")
    file("config.ru", 'run ->(_env) { [200, { "content-type" => "text/plain" }, ["hello\n"]] }')
  end

  def test_no_line_is_lost_when_files_are_moved
    processes = pids_of_rotated_logs("", boots: /Use Ctrl-C/)
    assert_equal [nil], processes
  end

  def test_nor_in_a_cluster
    processes = pids_of_rotated_logs("workers 2\npreload_app!\n", boots: /(booted in.*){2}/m)
    assert_operator processes.size, :>=, 1
    assert(processes.all?(Integer), processes.inspect)
  end

  # Returns the ids in the lines of the access log.
  def pids_of_rotated_logs(config, boots:)
    file("config/abaca.rb", <<~RUBY)
      #{config}port 0
      max_requests_per_connection 1_000_000
      stdout_redirect "log", "log.err"
    RUBY
    server = start("-v", "--access-log-format", "json", "--log-format", "json")
    assert(eventually { boots.match?(own_log) })
    numbers = rotate(server, Integer(own_log[/Listening on \S+:(\d+)/, 1]))
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus
    lines = lines_of_files
    assert_equal numbers, lines.map { |line| line["url.query"].to_i }.sort
    refute_match(/dropped|failed/, File.read("#{@log}.err"))
    lines.map { |line| line["pid"] }.uniq
  end

  def own_log = File.exist?(@log) ? File.read(@log) : ""

  # Those of the access log.
  def lines_of_files
    files = Dir["#{@log}*"] - ["#{@log}.err"]
    assert_equal ROUNDS + 1, files.size
    files.flat_map { |path| File.readlines(path) }.map { |line| JSON.parse(line) }.reject { |line| line["message"] }
  end

  # Requests run all the time; returns their numbers.
  def rotate(server, port)
    done = false
    sent = [0, 1_000_000]
    loads = sent.each_index.map { |index| Thread.new { send_requests(port, sent, index) until done } }
    ROUNDS.times do |round|
      before = sent.sum
      assert(eventually { sent.sum > before + LINES })
      File.rename(@log, "#{@log}.#{round}")
      server.signal(:HUP)
      assert(eventually { File.size?(@log) })
    end
    done = true
    loads.each(&:join)
    [*0...sent[0], *1_000_000...sent[1]]
  end

  # On a connection of their own, so that each worker may get some.
  def send_requests(port, sent, index)
    client = Wire::Client.new(port)
    8.times do
      numbers = sent[index]...(sent[index] + 25)
      client.write(numbers.map { |one| "GET /?#{one} HTTP/1.1\r\nHost: a.test\r\n\r\n" }.join)
      numbers.each { assert_equal 200, client.read.status }
      sent[index] = numbers.end
    end
  ensure
    client&.close
  end
end
